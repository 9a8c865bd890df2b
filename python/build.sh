#!/bin/sh
# Builds the wheel: build.sh FOLDER [debug|release], with the maturin that is on the path.
set -eu
folder=$1
profile=${2:-release}
cd "$(dirname "$0")"
flag=
[ "$profile" = debug ] || flag=--release
exec maturin build --quiet $flag --locked --out "$folder"
