#!/bin/sh
# Installs what building or testing lacks, on Debian 12 as root or with sudo. Quiet when nothing is missing.
#   needs.sh build   a C compiler for the allocator, Rust
#   needs.sh test    the servers that Polder is compared with, and a Python environment in .venv
#   needs.sh newer   redis 8.0 and valkey 8.1 from Debian 13, in a folder of their own, for `cargo x peers`
#
# No package's service is ever started. Valkey is unpacked below target/peers, without touching the machine's
# package sources; tests that want it or redis-py say so and go on when they could not be had.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
note() { echo "needs: $*" >&2; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else
        note "these need root: $*"
        exit 1
    fi
}

# install COMMAND PACKAGE...: installs the packages unless the command is there.
install() {
    command -v "$1" >/dev/null && return
    shift
    note "installing $*"
    if ! [ -e /usr/sbin/policy-rc.d ]; then
        printf '#!/bin/sh\nexit 101\n' | as_root tee /usr/sbin/policy-rc.d >/dev/null
        as_root chmod +x /usr/sbin/policy-rc.d
        trap 'as_root rm -f /usr/sbin/policy-rc.d' EXIT
    fi
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "$@" >/dev/null
}

# Valkey 8 from the backports suite of the mirror that this machine's own sources name.
unpack_valkey() {
    place=$target/peers/valkey
    [ -x "$place/usr/bin/valkey-server" ] || [ -e "$place/missing" ] && return
    mkdir -p "$place/lists/partial" "$place/archives/partial"
    mirror=$(sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\) .*/\2/p' \
        /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | grep '/debian/*$' | head -1)
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bookworm-backports main" >"$place/sources.list"
    note "unpacking valkey below $place"
    apt="apt-get -qq -o Dir::Etc::sourcelist=$place/sources.list -o Dir::Etc::sourceparts=/dev/null
        -o Dir::State::lists=$place/lists -o Dir::Cache::archives=$place/archives -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root"
    if ! { $apt update && cd "$place/archives" && $apt download valkey-server valkey-tools; } >"$place/log" 2>&1; then
        note "valkey could not be had (see $place/log); its comparisons are left out"
        touch "$place/missing"
        return
    fi
    for package in "$place"/archives/*.deb; do dpkg -x "$package" "$place"; done
    cd "$root"
}

# Redis 8.0 and Valkey 8.1, whose libraries are newer than this machine's: a whole Debian 13 in a folder.
unpack_newer() {
    place=$target/peers
    [ -x "$place/redis8" ] && return
    install debootstrap debootstrap
    mirror=$(sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\) .*/\2/p' \
        /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | grep '/debian/*$' | head -1)
    note "unpacking Debian 13 below $place/trixie"
    mkdir -p "$place"
    as_root debootstrap --variant=minbase --include=redis-server,valkey-server trixie "$place/trixie" "$mirror" >"$place/trixie.log" 2>&1 ||
        { note "Debian 13 could not be had (see $place/trixie.log)"; exit 1; }
    for pair in redis8:redis-server valkey81:valkey-server; do
        printf '#!/bin/sh\nexec chroot "%s/trixie" %s "$@"\n' "$place" "${pair#*:}" >"$place/${pair%:*}"
        chmod +x "$place/${pair%:*}"
    done
}

# redis-py, in an environment of its own.
make_venv() {
    [ -x "$root/.venv/bin/python" ] && "$root/.venv/bin/python" -c 'import redis' 2>/dev/null && return
    note "making .venv with redis-py"
    if ! { python3 -m venv "$root/.venv" && "$root/.venv/bin/pip" -q install 'redis>=5,<6'; } >/dev/null 2>&1; then
        note "redis-py could not be had; its test is left out"
    fi
}

case "${1:-}" in
build)
    command -v cargo >/dev/null || [ ! -e "$HOME/.cargo/env" ] || . "$HOME/.cargo/env"
    command -v cargo >/dev/null || { note "Rust is missing: see https://rustup.rs"; exit 1; }
    install cc build-essential
    ;;
test)
    install redis-server redis-server redis-tools
    install memcached memcached
    install pkg-config pkg-config
    install valgrind valgrind
    install man man-db
    # Tests stop processes by kill(1), which is no part of the smallest Debian.
    install pgrep procps
    install python3 python3 python3-venv
    python3 -c 'import ensurepip' 2>/dev/null || { as_root apt-get -qq update && as_root apt-get -qq -y install python3-venv >/dev/null; }
    # The real input of a test is the package catalogue.
    apt-cache dumpavail 2>/dev/null | grep -q '^Package:' || as_root apt-get -qq update
    unpack_valkey
    make_venv
    ;;
newer)
    unpack_newer
    ;;
*)
    note "needs.sh build|test|newer"
    exit 1
    ;;
esac
