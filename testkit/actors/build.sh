#!/bin/sh
# Builds what the torture run plays with beside Rust: the C actor against an installed libpolder, and a virtual environment with the Python wheel.
# Says nothing when all is well; fails where one of them cannot be had.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
place=$target/actors
mkdir -p "$place"
"$root/capi/build.sh" "$place/prefix" debug
export PKG_CONFIG_PATH="$place/prefix/lib/pkgconfig"
# shellcheck disable=SC2046
cc -std=gnu11 -O1 -g -Wall -Wextra -Werror -Wno-unused-function "$root/testkit/actors/actor.c" -o "$place/actor" \
    $(pkg-config --cflags --libs polder) -Wl,-rpath,"$place/prefix/lib" -lpthread
venv=$target/python/venv
if ! [ -x "$venv/bin/maturin" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" -q install 'maturin>=1.9.2,<2' 'redis>=5,<9'
fi
rm -rf "$place/wheel"
PATH=$venv/bin:$PATH "$root/python/build.sh" "$place/wheel" debug 2>"$place/log" || { cat "$place/log"; exit 1; }
"$venv/bin/pip" -q install --force-reinstall --no-deps "$place"/wheel/polderdb-*.whl
