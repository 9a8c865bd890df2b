#!/bin/sh
# Copies target/dist below a prefix, or removes what was copied: install.sh install|uninstall.
#   PREFIX      /usr/local
#   SYSCONFDIR  where polder/polder.conf goes: /etc below the prefix /usr, else PREFIX/etc. One that is there is kept
#   DESTDIR     put before every path, as packagers want it
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
dist=${CARGO_TARGET_DIR:-$root/target}/dist
prefix=${PREFIX:-/usr/local}
case $prefix in
/usr) sysconfdir=${SYSCONFDIR:-/etc} ;;
*) sysconfdir=${SYSCONFDIR:-$prefix/etc} ;;
esac
to=${DESTDIR:-}
list=$prefix/share/doc/polder/installed-files
conf=$sysconfdir/polder/polder.conf
say() { echo "$*"; }

case ${1:-} in
install)
    [ -d "$dist/bin" ] || { say "there is nothing in $dist: run 'make build' first" >&2; exit 1; }
    mkdir -p "$to$prefix/share/doc/polder" 2>/dev/null || { say "cannot write to $to$prefix: use sudo, or 'make install PREFIX=...'" >&2; exit 1; }
    : >"$to$list"
    (cd "$dist" && find . \( -type f -o -type l \) ! -name '.built-*' | sed 's|^\./||' | LC_ALL=C sort) | while read -r name; do
        mkdir -p "$to$prefix/$(dirname "$name")"
        # A program that runs keeps its old file: the name is made anew.
        rm -f "$to$prefix/$name"
        cp -P "$dist/$name" "$to$prefix/$name"
        echo "$prefix/$name" >>"$to$list"
    done
    sed -i "s|^prefix=.*|prefix=$prefix|" "$to$prefix/lib/pkgconfig/polder.pc"
    sed -i "s|@PREFIX@|$prefix|g; s|@SYSCONFDIR@|$sysconfdir|g" "$to$prefix/lib/systemd/system/polder.service"
    echo "$list" >>"$to$list"
    if [ -e "$to$conf" ]; then
        say "kept      $to$conf (the new sample is in $prefix/share/doc/polder)"
    else
        mkdir -p "$to$sysconfdir/polder"
        cp "$dist/share/doc/polder/polder.conf" "$to$conf"
        say "installed $to$conf"
    fi
    say "installed $(grep -c . "$to$list") files below $to$prefix: bin/polder, lib/libpolder.so and .a, include/polder.h,"
    say "          manual pages (man polder, man 3 polder), completions, lib/systemd/system/polder.service"
    if [ -z "$to" ] && [ "$(id -u)" = 0 ]; then
        ldconfig 2>/dev/null || true
        say "as a service:  adduser --system --group polder && systemctl daemon-reload && systemctl enable --now polder"
    fi
    ;;
uninstall)
    [ -e "$to$list" ] || { say "nothing is installed below $to$prefix (there is no $to$list)" >&2; exit 1; }
    count=0
    if [ -e "$to$conf" ] && cmp -s "$to$conf" "$to$prefix/share/doc/polder/polder.conf"; then
        rm -f "$to$conf"
        rmdir "$to$sysconfdir/polder" 2>/dev/null || true
    elif [ -e "$to$conf" ]; then
        say "kept      $to$conf: it was changed"
    fi
    files=$(cat "$to$list")
    for name in $files; do
        rm -f "$to$name"
        count=$((count + 1))
    done
    rmdir "$to$prefix/share/doc/polder" 2>/dev/null || true
    say "removed   $count files below $to$prefix; segments in memory stay ('polder segment list' showed them)"
    ;;
*)
    say "install.sh install|uninstall" >&2
    exit 1
    ;;
esac
