#!/bin/sh
# Builds all that is installed and puts it into target/dist, stripped, as it will lie below a prefix: build.sh [debug|release].
# Afterwards packaging/install.sh and packaging/deb.sh need no compiler.
set -eu
profile=${1:-release}
root=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
dist=$target/dist
say() { echo "build: $*"; }

cd "$root"
case $profile in
release) flag=--release ;;
debug) flag= ;;
*) say "build.sh debug|release, not '$profile'" >&2; exit 1 ;;
esac
command -v cargo >/dev/null || [ ! -e "${HOME:-/nowhere}/.cargo/env" ] || . "$HOME/.cargo/env"
command -v cargo >/dev/null || {
    say "the build in $dist is missing or older than the sources, and cargo is not on the PATH." >&2
    say "Run 'make build' as the user that has Rust, then 'sudo make install' again." >&2
    exit 1
}

say "the program ($profile)"
cargo build $flag --locked --package polder
say "the C library ($profile); the release takes some minutes"
rm -rf "$dist"
mkdir -p "$dist"
DESTDIR=$dist capi/build.sh /prefix "$profile"
mv "$dist/prefix"/* "$dist"
rmdir "$dist/prefix"

say "manual pages, completions, the sample configuration"
install -D -m 755 "$target/$profile/polder" "$dist/bin/polder"
mkdir -p "$dist/share/man/man1" "$dist/share/bash-completion/completions" "$dist/share/zsh/site-functions" "$dist/share/fish/vendor_completions.d"
"$dist/bin/polder" man "$dist/share/man/man1"
"$dist/bin/polder" completions bash >"$dist/share/bash-completion/completions/polder"
"$dist/bin/polder" completions zsh >"$dist/share/zsh/site-functions/_polder"
"$dist/bin/polder" completions fish >"$dist/share/fish/vendor_completions.d/polder.fish"
install -D -m 644 packaging/polder.conf "$dist/share/doc/polder/polder.conf"
install -m 644 README.md LICENSE CHANGELOG.md docs/*.md "$dist/share/doc/polder"
install -D -m 644 packaging/polder.service "$dist/lib/systemd/system/polder.service"
gzip -9nf "$dist"/share/man/man*/*

say "stripping"
strip "$dist/bin/polder"
find "$dist/lib" -name 'libpolder.so.*' -type f -exec strip --strip-unneeded {} +
find "$dist/lib" -name '*.a' -exec strip --strip-debug {} +
touch "$dist/.built-$profile"
say "done: $dist ($(du -sh "$dist" | cut -f1))"
