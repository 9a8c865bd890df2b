#!/bin/sh
# The layer "Python door" of `make test`: builds the wheel, installs it into a virtual environment of its own, and runs the tests there.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
place=$target/python
rm -rf "$place/wheel"
mkdir -p "$place"
if ! [ -x "$place/venv/bin/maturin" ]; then
    python3 -m venv "$place/venv"
    "$place/venv/bin/pip" -q install 'maturin>=1.7,<2' 'redis>=5,<6'
fi
PATH=$place/venv/bin:$PATH
"$root/python/build.sh" "$place/wheel" debug
pip -q install --force-reinstall --no-deps "$place"/wheel/polder-*.whl
cd "$place"
exec timeout 300 python "$root/python/tests/test_polder.py"
