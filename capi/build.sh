#!/bin/sh
# Builds the C library and installs it: build.sh PREFIX [debug|release]. DESTDIR is put before every path, as packagers want it.
set -eu
prefix=$1
profile=${2:-release}
root=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -1)
major=${version%%.*}
target=${CARGO_TARGET_DIR:-$root/target}
flag=
[ "$profile" = debug ] || flag=--release

cd "$root"
cargo rustc --quiet --locked --package polder-capi --lib --crate-type cdylib,staticlib $flag -- \
    -C "link-arg=-Wl,-soname,libpolder.so.$major"
to=${DESTDIR:-}$prefix
mkdir -p "$to/include" "$to/lib/pkgconfig" "$to/share/man/man3"
install -m 644 capi/include/polder.h capi/include/polder_commands.h capi/include/polder_client.h "$to/include"
install -m 755 "$target/$profile/libpolder.so" "$to/lib/libpolder.so.$version"
ln -sf "libpolder.so.$version" "$to/lib/libpolder.so.$major"
ln -sf "libpolder.so.$major" "$to/lib/libpolder.so"
install -m 644 "$target/$profile/libpolder.a" "$to/lib"
install -m 644 capi/polder.3 capi/polder_client.3 "$to/share/man/man3"
cat >"$to/lib/pkgconfig/polder.pc" <<END
prefix=$prefix
libdir=\${prefix}/lib
includedir=\${prefix}/include

Name: polder
Description: A memory that many processes share: a Redis-compatible store, in-process
Version: $version
Cflags: -I\${includedir}
Libs: -L\${libdir} -lpolder
Libs.private: -lpthread -ldl -lm
END
