#!/bin/sh
# Installs what building or testing lacks, on Debian 12 as root or with sudo. Quiet when nothing is missing.
#   needs.sh build   a C compiler for the allocator, Rust, RocksDB's library for `swap-mode disk`
#   needs.sh test    the servers that Polder is compared with, and a Python environment in .venv
#   needs.sh bench   what `cargo x bench protocols` compares HTTP with, and measures it by: nginx, webdis and wrk
#   needs.sh newer   redis 8.0 and valkey 8.1 from Debian 13, in a folder of their own, for `cargo x peers`
#   needs.sh newest [FOLDER]
#                    redis 8.6 and valkey 9.1 as Debian builds them (experimental, sid), with their own libraries, and kevy 3.17 from its
#                    crate, for `POLDER_PEERS=FOLDER cargo x bench`; FOLDER is target/peers/newest unless given. Needs no root.
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

# The mirror that this machine's own sources name.
mirror() {
    sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\) .*/\2/p' \
        /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | grep '/debian/*$' | head -1
}

# Valkey 8 from the backports suite of the mirror that this machine's own sources name.
unpack_valkey() {
    place=$target/peers/valkey
    [ -x "$place/usr/bin/valkey-server" ] || [ -e "$place/missing" ] && return
    mkdir -p "$place/lists/partial" "$place/archives/partial"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(mirror) bookworm-backports main" >"$place/sources.list"
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
    note "unpacking Debian 13 below $place/trixie"
    mkdir -p "$place"
    as_root debootstrap --variant=minbase --include=redis-server,valkey-server trixie "$place/trixie" "$(mirror)" >"$place/trixie.log" 2>&1 ||
        { note "Debian 13 could not be had (see $place/trixie.log)"; exit 1; }
    for pair in redis8:redis-server valkey81:valkey-server; do
        printf '#!/bin/sh\nexec chroot "%s/trixie" %s "$@"\n' "$place" "${pair#*:}" >"$place/${pair%:*}"
        chmod +x "$place/${pair%:*}"
    done
}

# The newest Redis and Valkey of a Debian suite that is newer than this machine: their packages and all libraries that these need are unpacked
# into one folder, and the programs are started by that folder's own loader.
#
#   FOLDER/redis-8.6, FOLDER/valkey-9.1, FOLDER/kevy-3.17   what to start: a script for each
#   FOLDER/SUITE/usr/...                  the unpacked packages of a suite
unpack_newest() {
    place=$(mkdir -p "$1" && cd "$1" && pwd)
    unpack_from sid valkey-server valkey
    unpack_from experimental redis-server redis
    build_kevy 3.17.3
}

# build_kevy VERSION: makes $place/kevy-VERSION, which takes the flags of redis-server that benchmarks give: it runs one thread, and keeps
# no log.
build_kevy() {
    name=kevy-${1%.*}
    ! [ -e "$place/$name" ] || return 0
    note "building kevy $1 below $place"
    if ! cargo install --quiet --locked kevy --version "$1" --root "$place/kevy" --target-dir "$place/kevy/target" >"$place/kevy.log" 2>&1; then
        note "kevy could not be had (see $place/kevy.log); it is left out"
        return 0
    fi
    rm -rf "$place/kevy/target"
    cat >"$place/$name" <<END
#!/bin/sh
while [ \$# -gt 1 ]; do
    [ "\$1" != --port ] || port=\$2
    shift 2
done
exec "$place/kevy/bin/kevy" --bind 127.0.0.1 --port "\$port" --threads 1 --no-aof
END
    chmod +x "$place/$name"
}

# unpack_from SUITE PACKAGE NAME: makes $place/NAME-VERSION of the PACKAGE's program.
unpack_from() {
    suite=$1 package=$2 name=$3
    ! ls "$place/$name"-* >/dev/null 2>&1 || return 0
    folder=$place/$suite
    rm -rf "$folder"
    mkdir -p "$folder/apt/lists/partial" "$folder/apt/archives/partial"
    signed=signed-by=/usr/share/keyrings/debian-archive-keyring.gpg
    for each in sid "$suite"; do echo "deb [$signed] $(mirror) $each main"; done | sort -u >"$folder/apt/sources.list"
    # An empty status: every package that is needed counts as missing and is downloaded, the C library too.
    : >"$folder/apt/status"
    apt="apt-get -qq -o Dir::Etc::sourcelist=$folder/apt/sources.list -o Dir::Etc::sourceparts=/dev/null -o Dir::State::status=$folder/apt/status
        -o Dir::State::lists=$folder/apt/lists -o Dir::Cache::archives=$folder/apt/archives -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
        -o APT::Sandbox::User=root -o Debug::NoLocking=1"
    note "unpacking $package of Debian's $suite below $place"
    if ! { $apt update && $apt -y --download-only --no-install-recommends -t "$suite" install "$package"; } >"$folder/log" 2>&1; then
        note "$package could not be had (see $folder/log): use 'needs.sh newer' in its place"
        return 1
    fi
    # dpkg's own archives unpack without scripts; folders that became links (/lib) are brought together by hand.
    mkdir -p "$folder/usr/lib" "$folder/usr/lib64" "$folder/usr/bin" "$folder/usr/sbin"
    for each in bin sbin lib lib64; do ln -sfn "usr/$each" "$folder/$each"; done
    for archive in "$folder"/apt/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$archive" | tar -x -C "$folder" --keep-directory-symlink --no-same-owner --exclude='./dev/*'
    done
    rm -rf "$folder/apt"
    loader=$(find "$folder/usr/lib64" "$folder/usr/lib" -name 'ld-linux*.so.*' | head -1)
    libraries=$(find "$folder/usr/lib" -name 'libc.so.6' -printf '%h\n' | head -1)
    start="$loader --library-path $libraries $folder/usr/bin/$package"
    version=$($start --version | sed -n 's/.* v=\([0-9]*\.[0-9]*\).*/\1/p')
    [ -n "$version" ] || { note "$package does not start: see '$start --version'"; return 1; }
    printf '#!/bin/sh\nexec %s "$@"\n' "$start" >"$place/$name-$version"
    chmod +x "$place/$name-$version"
}

# redis-py, clients of memcached and NATS, and websockets, in an environment of their own.
make_venv() {
    [ -x "$root/.venv/bin/python" ] && "$root/.venv/bin/python" -c 'import redis, pymemcache, pylibmc, bmemcached, websockets, nats' 2>/dev/null && return
    note "making .venv with redis-py, pymemcache, pylibmc, python-binary-memcached, nats-py and websockets"
    if ! { python3 -m venv "$root/.venv" && "$root/.venv/bin/pip" -q install 'redis>=5,<6' pymemcache==4.0.0 python-binary-memcached==0.33.0 websockets==15.0.1 nats-py==2.16.0; } >/dev/null 2>&1; then
        note "redis-py, pymemcache, nats-py and websockets could not be had; their tests are left out"
    fi
    if ! "$root/.venv/bin/pip" -q install pylibmc==1.6.3 >/dev/null 2>&1; then
        note "pylibmc could not be had; its test is left out"
    fi
}

# The client `ws` for Node.js and the terminal xterm.js, where there is npm: packages without others.
make_node() {
    [ -d "$target/node/node_modules/ws" ] && [ -d "$target/node/node_modules/@xterm/addon-attach" ] && return
    command -v npm >/dev/null || { note "npm is missing; the tests of ws and xterm.js are left out"; return; }
    note "unpacking ws and xterm.js below $target/node"
    mkdir -p "$target/node"
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$target/node" ws@8.23.0 @xterm/xterm@6.0.0 @xterm/addon-attach@0.12.0 >/dev/null 2>&1 ||
        note "ws and xterm.js could not be had; their tests are left out"
}

case "${1:-}" in
build)
    command -v cargo >/dev/null || [ ! -e "$HOME/.cargo/env" ] || . "$HOME/.cargo/env"
    command -v cargo >/dev/null || { note "Rust is missing: see https://rustup.rs"; exit 1; }
    install cc build-essential
    # A program without it says so where `swap-mode disk` is asked for.
    ls /usr/lib/*/librocksdb.so.* >/dev/null 2>&1 || install librocksdb librocksdb7.8 || note "RocksDB could not be had; swap-mode disk is left out"
    ;;
test)
    install redis-server redis-server redis-tools
    install memcached memcached
    install memccapable libmemcached-tools
    install curl curl
    install pkg-config pkg-config
    install valgrind valgrind
    # Tells where a test hangs (xtask/limit.sh).
    install gdb gdb
    install man man-db
    # Tests stop processes by kill(1), which is no part of the smallest Debian.
    install pgrep procps
    # The console is tested in a browser without a screen.
    install chromedriver chromium-driver
    install chromium-headless-shell chromium-headless-shell
    install python3 python3 python3-venv
    python3 -c 'import ensurepip' 2>/dev/null || { as_root apt-get -qq update && as_root apt-get -qq -y install python3-venv >/dev/null; }
    # The real input of a test is the package catalogue.
    apt-cache dumpavail 2>/dev/null | grep -q '^Package:' || as_root apt-get -qq update
    unpack_valkey
    make_venv
    make_node
    ;;
bench)
    install nginx nginx-light
    install wrk wrk
    install webdis webdis
    ;;
newer)
    unpack_newer
    ;;
newest)
    unpack_newest "${2:-$target/peers/newest}"
    ;;
*)
    note "needs.sh build|test|bench|newer|newest"
    exit 1
    ;;
esac
