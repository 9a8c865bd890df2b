#!/bin/sh
# The speed table of the client: run.sh [ROUNDS]. Builds the bench and the wheel for release, starts redis-server and `polder serve` (where
# target/release/polder has been built), and measures beside redis-rs, fred and redis-py, in turns. Run it on a quiet machine.
set -eu
rounds=${1:-5}
root=$(cd "$(dirname "$0")/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
place=$target/client-bench
mkdir -p "$place"
segment=client-bench-$$
servers=
clean() {
    for server in $servers; do kill "$server" 2>/dev/null || true; done
    rm -f /dev/shm/"$segment" /dev/shm/polder-"$segment" /dev/shm/.polder-bell-*"$segment"-* "/dev/shm/$segment-python"
}
trap clean EXIT
free_port() { python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
# started PORT: waits until the server that was started last replies.
started() {
    servers="$servers $!"
    for _ in $(seq 100); do redis-cli -p "$1" ping >/dev/null 2>&1 && return; sleep 0.1; done
    echo "the server of port $1 does not reply" >&2
    exit 1
}
(cd "$root/client/bench" && CARGO_TARGET_DIR="$place/build" cargo build --quiet --locked --release)
if ! [ -x "$place/venv/bin/python" ]; then
    python3 -m venv "$place/venv"
    "$place/venv/bin/pip" -q install 'maturin>=1.9.2,<2' 'redis>=8,<9'
fi
rm -rf "$place/wheel"
PATH=$place/venv/bin:$PATH "$root/python/build.sh" "$place/wheel" release
"$place/venv/bin/pip" -q install --force-reinstall --no-deps "$place"/wheel/polderdb-*.whl

measure() {
    echo "## $1"
    "$place/build/release/polder-client-bench" "redis://127.0.0.1:$2" "$rounds"
    "$place/venv/bin/python" "$root/python/bench/connect.py" "redis://127.0.0.1:$2" "shm:$segment-python"
}
port=$(free_port)
redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$place" >"$place/redis.log" 2>&1 &
started "$port"
measure "redis-server $(redis-server --version | sed 's/.* v=\([0-9.]*\).*/\1/')" "$port"
if [ -x "$target/release/polder" ]; then
    port=$(free_port)
    "$target/release/polder" serve --segment "shm:$segment" --port "$port" --threads 1 >"$place/polder.log" 2>&1 &
    started "$port"
    measure "polder serve" "$port"
else
    echo "there is no $target/release/polder (make build): not measured" >&2
fi
