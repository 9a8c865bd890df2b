#!/bin/bash
# Tries all of the packaging: test.sh [debug|release]. Wanted: root, debootstrap, and the mirror that this machine's own sources name.
# It takes some minutes: a Debian 12 is unpacked once below target/packaging, and copied for each run.
#   1  make install below a folder, twice, without cargo on the PATH; pkg-config; make uninstall
#   2  make deb; the packages installed into a clean Debian 12: user, service file, a server as that user, upgrade, removal, purge
#   3  the steps of the Containerfile in another copy
set -euo pipefail
profile=${1:-debug}
root=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
place=$target/packaging
base=$place/bookworm
here=$place/chroot
passed=0
cd "$root"

pass() { passed=$((passed + 1)); }
fail() { echo "packaging: $*"; echo "packaging: $passed passed, 1 failed"; exit 1; }
# expect WHAT TEXT COMMAND...: the command succeeds and its output has the text in it.
expect() {
    local what=$1 text=$2 said
    shift 2
    said=$("$@" 2>&1) || fail "$what: $said"
    [[ $said == *"$text"* ]] || fail "$what: no '$text' in: $(printf %s "$said" | tail -c 1000)"
    pass
}
clean() {
    leave
    rm -rf "$place/prefix"
}
leave() {
    for pid in /proc/[0-9]*; do
        [ "$(readlink "$pid/root" 2>/dev/null)" != "$here" ] || kill -9 "${pid#/proc/}" 2>/dev/null || true
    done
    for folder in dev/shm dev proc; do mountpoint -q "$here/$folder" && umount "$here/$folder" || true; done
    # Nothing is removed through a mount that would not go.
    if ! grep -q " $here/" /proc/mounts; then rm -rf "$here"; fi
}
trap clean EXIT

# enter: a fresh copy of Debian 12 with its own /dev/shm.
enter() {
    leave
    cp -a "$base" "$here"
    mount -t proc proc "$here/proc"
    mount -t tmpfs -o size=64k none "$here/dev"
    for device in null zero random urandom; do
        mknod -m 666 "$here/dev/$device" c 1 "$(stat -c '%T' /dev/$device | sed 's/^/0x/' | xargs printf '%d')"
    done
    mkdir "$here/dev/shm"
    mount -t tmpfs -o size=512m,mode=1777 none "$here/dev/shm"
    printf '#!/bin/sh\nexit 101\n' >"$here/usr/sbin/policy-rc.d"
    chmod +x "$here/usr/sbin/policy-rc.d"
    cp /etc/resolv.conf "$here/etc/resolv.conf" 2>/dev/null || true
}
inside() { chroot "$here" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive "$@"; }
as_polder() { inside setpriv --reuid polder --regid polder --init-groups --inh-caps=-all "$@"; }
# awaits WHAT COMMAND...: the command succeeds within some seconds.
awaits() {
    local what=$1
    shift
    for _ in $(seq 100); do "$@" >/dev/null 2>&1 && { pass; return; }; sleep 0.1; done
    fail "$what: $("$@" 2>&1)"
}

[ "$(id -u)" = 0 ] || fail "root is wanted for a chroot"
command -v debootstrap >/dev/null || fail "debootstrap is missing: apt-get install debootstrap"
mkdir -p "$place"
if ! [ -e "$base/etc/debian_version" ] || ! [ -e "$place/whole" ]; then
    mirror=$(sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\) .*/\2/p' \
        /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | grep '/debian/*$' | head -1) || true
    [ -n "$mirror" ] || fail "this machine's sources name no mirror of Debian"
    rm -rf "$base"
    debootstrap --variant=minbase bookworm "$base" "$mirror" >"$place/debootstrap.log" 2>&1 || fail "debootstrap: see $place/debootstrap.log"
    touch "$place/whole"
fi

# 1. make install, as root would run it after another user's make build.
make --no-print-directory build PROFILE="$profile" >"$place/build.log" 2>&1 || fail "make build: see $place/build.log"
bare() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/nowhere CARGO_TARGET_DIR="$target" make --no-print-directory "$@" PROFILE="$profile" PREFIX="$place/prefix"; }
expect "make install without cargo" "installed $place/prefix/etc/polder/polder.conf" bare install
echo "# mine" >>"$place/prefix/etc/polder/polder.conf"
expect "a second make install keeps the configuration" "kept " bare install
[ "$(bare install | grep -c '^build:')" = 0 ] || fail "make install builds again"
for name in bin/polder lib/libpolder.so lib/libpolder.a lib/pkgconfig/polder.pc include/polder.h include/polder_client.h share/man/man1/polder-serve.1.gz \
    share/man/man3/polder.3.gz share/man/man3/polder_client.3.gz share/bash-completion/completions/polder share/zsh/site-functions/_polder \
    share/fish/vendor_completions.d/polder.fish share/doc/polder/polder.conf lib/systemd/system/polder.service; do
    [ -e "$place/prefix/$name" ] || fail "make install leaves no $name"
done
pass
! file -L "$place/prefix/bin/polder" | grep -q 'not stripped' || fail "the program is not stripped"
expect "the installed program" "polder " "$place/prefix/bin/polder" --version
expect "bash completes settings" "--maxmemory-policy" cat "$place/prefix/share/bash-completion/completions/polder"
if command -v man >/dev/null; then expect "the manual page" "SETTING" man -P cat -l "$place/prefix/share/man/man1/polder-serve.1.gz"; fi
if command -v pkg-config >/dev/null; then
    expect "pkg-config" "-L$place/prefix/lib" env PKG_CONFIG_PATH="$place/prefix/lib/pkgconfig" pkg-config --libs polder
fi
expect "make uninstall" "removed " bare uninstall
[ "$(find "$place/prefix" -type f)" = "$place/prefix/etc/polder/polder.conf" ] || fail "make uninstall leaves $(find "$place/prefix" -type f)"
pass

# 2. The packages in a clean Debian.
expect "make deb" "libpolder-dev_" bare deb
enter
mkdir "$here/packages"
cp "$target"/deb/*.deb "$here/packages"
expect "apt-get update" "" inside apt-get -qq update
expect "the packages install" "Setting up polder" inside sh -c 'apt-get -y --no-install-recommends install /packages/*.deb'
expect "the user" "polder" inside id -un polder
expect "the configuration belongs to the user" "640 polder" inside stat -c '%a %U' /etc/polder/polder.conf
inside install -d -o polder -g polder /run/polder
# The line that the service runs, as its user.
line=$(sed -n 's/^ExecStart=//p' "$here/lib/systemd/system/polder.service")
# shellcheck disable=SC2086
as_polder $line --daemonize yes --pidfile /run/polder/polder.pid --logfile /var/log/polder/polder.log || fail "the server does not start"
pass
expect "a SET over TCP" "OK" inside polder cli set greeting hello
expect "a GET over the socket" "hello" inside polder cli -s /run/polder/polder.sock get greeting
expect "the server runs as its user" "polder" inside stat -c %U /dev/shm/polder
expect "the memory is whole" "" as_polder polder verify polder
expect "the log tells the start" "ready to accept connections" cat "$here/var/log/polder/polder.log"
expect "installed again, as an upgrade" "Setting up polder" inside sh -c 'apt-get -y --reinstall install /packages/polder_*.deb'
expect "the data after it" "hello" inside polder cli get greeting
inside sh -c 'kill $(cat /run/polder/polder.pid)'
awaits "the server ends" sh -c "! test -e '$here/run/polder/polder.pid'"
# As systemd does with the service's RuntimeDirectory.
rm -r "$here/run/polder"
expect "the data without a server" "hello" as_polder polder cli --segment shm:polder get greeting
expect "the library is found" "libpolder.so.0" inside ldconfig -p
expect "it is removed" "Removing polder" inside apt-get -y remove polder libpolder0 libpolder-dev
[ -e "$here/etc/polder/polder.conf" ] || fail "removing takes the configuration away"
expect "it is purged" "Purging" inside apt-get -y purge polder
left=$(inside find / -xdev \( -name proc -prune \) -o -iname '*polder*' ! -path '/packages*' ! -path '/var/log/*' ! -path '/var/cache/*' -print)
[ -z "$left" ] || fail "purging leaves $left"
[ -z "$(ls "$here/dev/shm")" ] || fail "purging leaves $(ls "$here/dev/shm") in memory"
! inside id polder 2>/dev/null || fail "purging leaves the user"
pass

# 3. The Containerfile's steps.
enter
while read -r _ from to; do
    # shellcheck disable=SC2086
    cp "$target"/${from#target/} "$here$to" || fail "Containerfile: COPY $from"
done < <(grep '^COPY ' packaging/Containerfile)
sed -n 's/^RUN //p' packaging/Containerfile >"$place/steps"
while read -r step; do inside sh -c "$step" >"$place/step.log" 2>&1 || fail "Containerfile: $step: $(tail -3 "$place/step.log")"; done <"$place/steps"
pass
mapfile -t entry < <(sed -n 's/^ENTRYPOINT \[\(.*\)\]$/\1/p' packaging/Containerfile | sed 's/", "/\n/g; s/^"//; s/"$//')
as_polder sh -c 'cd /var/lib/polder && exec "$@"' sh "${entry[@]}" --port 16379 --requirepass secret >"$place/container.log" 2>&1 &
awaits "the container's server" inside polder cli -e -p 16379 -a secret --no-auth-warning ping
inside polder cli -p 16379 -a secret --no-auth-warning shutdown nosave >/dev/null 2>&1 || true
wait $! || fail "the container's server ends badly: $(tail -3 "$place/container.log")"
pass
echo "packaging: $passed passed, 0 failed"
