#!/bin/sh
# Debian packages out of target/dist, into target/deb:
#   polder         the server and its tools, with a service of its own user
#   libpolder0     the C library
#   libpolder-dev  its headers, the static library, and manual pages
# Wanted: dpkg-dev (dpkg-deb, dpkg-shlibdeps). No root.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
dist=$target/dist
out=$target/deb
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -1)
major=${version%%.*}
architecture=$(dpkg --print-architecture)
multiarch=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
maintainer=${DEBEMAIL:-Polder developers <polder@localhost>}
say() { echo "deb: $*"; }

command -v dpkg-shlibdeps >/dev/null || { say "dpkg-shlibdeps is missing: install dpkg-dev" >&2; exit 1; }
[ -d "$dist/bin" ] || { say "there is nothing in $dist: run 'make build' first" >&2; exit 1; }
rm -rf "$out"
mkdir -p "$out/debian"
# dpkg-shlibdeps wants a source package around it.
printf 'Source: polder\n\nPackage: polder\nArchitecture: any\n' >"$out/debian/control"

# place FOLDER-OF-A-PACKAGE FROM TO: copies a part of dist.
place() {
    mkdir -p "$out/$1/$(dirname "$3")"
    cp -dR "$dist/$2" "$out/$1/$3"
}
# needs FILE...: the packages whose libraries these files want.
needs() {
    (cd "$out" && dpkg-shlibdeps -O --ignore-missing-info "$@" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
}
# finish PACKAGE SECTION DEPENDS SUMMARY TEXT...: writes the control file and packs.
finish() {
    name=$1 section=$2 depends=$3 summary=$4
    shift 4
    folder=$out/$name
    mkdir -p "$folder/DEBIAN" "$folder/usr/share/doc/$name"
    {
        echo "Package: $name"
        echo "Source: polder"
        echo "Version: $version"
        echo "Architecture: $architecture"
        echo "Maintainer: $maintainer"
        echo "Installed-Size: $(du -ks --exclude=DEBIAN "$folder" | cut -f1)"
        [ -z "$depends" ] || echo "Depends: $depends"
        echo "Section: $section"
        echo "Priority: optional"
        echo "Description: $summary"
        printf ' %s\n' "$@"
    } >"$folder/DEBIAN/control"
    {
        echo "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
        echo "Upstream-Name: polder"
        echo
        echo "Files: *"
        echo "Copyright: The Polder developers"
        echo "License: Apache-2.0"
        echo " On Debian systems the full text is in /usr/share/common-licenses/Apache-2.0."
    } >"$folder/usr/share/doc/$name/copyright"
    printf 'polder (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- %s  %s\n' "$version" "$maintainer" \
        "$(date -Ru -d "@${SOURCE_DATE_EPOCH:-$(stat -c %Y "$dist/bin/polder")}")" | gzip -9n >"$folder/usr/share/doc/$name/changelog.gz"
    (cd "$folder" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    chmod -R u=rwX,go=rX "$folder"
    [ ! -d "$folder/etc/polder" ] || chmod 640 "$folder/etc/polder/polder.conf"
    dpkg-deb --root-owner-group --build "$folder" "$out" >/dev/null
    say "$out/${name}_${version}_$architecture.deb"
}

# The server.
place polder bin/polder usr/bin/polder
place polder share/man/man1 usr/share/man/man1
place polder share/bash-completion usr/share/bash-completion
place polder share/zsh/site-functions usr/share/zsh/vendor-completions
place polder share/fish usr/share/fish
place polder share/doc/polder usr/share/doc/polder
rm -f "$out/polder/usr/share/doc/polder/LICENSE"
mkdir -p "$out/polder/lib/systemd/system" "$out/polder/etc/polder" "$out/polder/DEBIAN"
sed 's|@PREFIX@|/usr|g; s|@SYSCONFDIR@|/etc|g' "$dist/lib/systemd/system/polder.service" >"$out/polder/lib/systemd/system/polder.service"
sed "s|^#dir .*|dir /var/lib/polder|; s|^#unixsocket .*|unixsocket /run/polder/polder.sock|; s|^#unixsocketperm .*|unixsocketperm 770|" \
    "$dist/share/doc/polder/polder.conf" >"$out/polder/etc/polder/polder.conf"
echo /etc/polder/polder.conf >"$out/polder/DEBIAN/conffiles"
for script in postinst prerm postrm; do install -m 755 "$root/packaging/deb/$script" "$out/polder/DEBIAN/$script"; done
finish polder database "$(needs polder/usr/bin/polder), adduser" "Redis-compatible store in shared memory, server and tools" \
    "Polder keeps its data in a segment of shared memory. Any process may attach it and" \
    "read and write in-process; the server opens it to Redis clients. A process may be" \
    "killed at any instruction: the memory stays whole, and outlives the server."

# The library.
mkdir -p "$out/libpolder$major/usr/lib/$multiarch"
cp -d "$dist/lib/libpolder.so.$version" "$dist/lib/libpolder.so.$major" "$out/libpolder$major/usr/lib/$multiarch"
mkdir -p "$out/libpolder$major/DEBIAN"
echo "activate-noawait ldconfig" >"$out/libpolder$major/DEBIAN/triggers"
echo "libpolder $major libpolder$major (>= $version)" >"$out/libpolder$major/DEBIAN/shlibs"
finish "libpolder$major" libs "$(needs "libpolder$major/usr/lib/$multiarch/libpolder.so.$version")" \
    "Redis-compatible store in shared memory, C library" \
    "Programs attach a segment of shared memory and run every command of Polder in-process."

mkdir -p "$out/libpolder-dev/usr/lib/$multiarch/pkgconfig"
cp -d "$dist"/lib/libpolder.so "$dist"/lib/*.a "$out/libpolder-dev/usr/lib/$multiarch"
sed "s|^prefix=.*|prefix=/usr|; s|^libdir=.*|libdir=\${prefix}/lib/$multiarch|" "$dist/lib/pkgconfig/polder.pc" \
    >"$out/libpolder-dev/usr/lib/$multiarch/pkgconfig/polder.pc"
place libpolder-dev include usr/include
place libpolder-dev share/man/man3 usr/share/man/man3
finish libpolder-dev libdevel "libpolder$major (= $version), libc6-dev" "Redis-compatible store in shared memory, headers" \
    "What C programs that use libpolder are built with."
