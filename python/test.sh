#!/bin/sh
# The layer "Python door" of `make test`: builds the wheel, installs it into a virtual environment of its own, and runs the tests there.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
place=$target/python
rm -rf "$place/wheel"
mkdir -p "$place"
if ! "$place/venv/bin/python" -c 'import redis, sys; sys.exit(redis.__version__ < "8")' 2>/dev/null; then
    python3 -m venv "$place/venv"
    "$place/venv/bin/pip" -q install 'maturin>=1.9.2,<2' 'redis>=8,<9'
fi
PATH=$place/venv/bin:$PATH
"$root/python/build.sh" "$place/wheel" debug
pip -q install --force-reinstall --no-deps "$place"/wheel/polderdb-*.whl
cd "$place"
tests=$root/python/tests
passed=0
failed() {
    echo "Python door: $1 fails"
    echo "Python door: $passed passed, 1 failed"
    exit 1
}
# step WHAT COMMAND...: a check of its own.
step() {
    what=$1
    shift
    timeout 200 "$@" >"$place/log" 2>&1 || { tail -30 "$place/log"; failed "$what"; }
    passed=$((passed + 1))
}
step "test_polder.py" python "$tests/test_polder.py"
# The same with the older versions of redis-py that the package allows, each in a folder of its own.
for version in 5 6 7; do
    older=$place/redis$version
    [ -d "$older/redis" ] || step "redis-py $version" pip -q install --target "$older" "redis>=$version,<$((version + 1))"
    step "test_polder.py with redis-py $version" env PYTHONPATH="$older" python "$tests/test_polder.py"
done
# The client of servers: beside redis-server, and beside Polder's own where it has been built. By TCP: redis-py 7 cannot speak RESP3 over a socket file.
segment=python-connect-$$
servers=
stop_servers() {
    for server in $servers; do kill "$server" 2>/dev/null || true; done
    rm -f /dev/shm/"$segment" /dev/shm/polder-"$segment" /dev/shm/.polder-bell-*"$segment"-*
}
trap stop_servers EXIT
free_port() {
    python -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
# started PORT: waits until the server that was started last replies.
started() {
    servers="$servers $!"
    for _ in $(seq 100); do redis-cli -p "$1" ping >/dev/null 2>&1 && break; sleep 0.1; done
}
port=$(free_port)
redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$place" >"$place/redis" 2>&1 &
started "$port"
step "test_connect.py beside redis-server" python "$tests/test_connect.py" "redis://127.0.0.1:$port"
for version in 5 6 7; do
    step "test_connect.py with redis-py $version" env PYTHONPATH="$place/redis$version" python "$tests/test_connect.py" "redis://127.0.0.1:$port"
done
if [ -x "$target/debug/polder" ]; then
    port=$(free_port)
    "$target/debug/polder" serve --segment "shm:$segment" --port "$port" --threads 1 >"$place/serve" 2>&1 &
    started "$port"
    step "test_connect.py beside polder serve" python "$tests/test_connect.py" "redis://127.0.0.1:$port"
else
    echo "Python door: there is no polder command; test_connect.py ran beside redis-server only"
fi
step "test_processes.py" python "$tests/test_processes.py"
step "hostile input" python "$tests/test_hostile.py"

# Examples, each of them with what it is to say.
name=python-examples-$$
trap 'stop_servers; rm -f /dev/shm/"$name" /dev/shm/.polder-bell-"$name"-*' EXIT
examples=$root/python/examples
step "the workers" python "$examples/workers.py" "$name" 4 40
grep -q "160 requests of 4 workers: 30 calls" "$place/log" || { cat "$place/log"; failed "what the workers say"; }
step "the leaderboard" python "$examples/leaderboard.py" "$name" add ann 7
step "the leaderboard" python "$examples/leaderboard.py" "$name" add bob 3.5
grep -q "bob: 3.5 points, place 2, 1 updates" "$place/log" || { cat "$place/log"; failed "what the leaderboard says"; }
step "its best" python "$examples/leaderboard.py" "$name" top 10
grep -q "1. ann 7" "$place/log" || { cat "$place/log"; failed "what the leaderboard says"; }

step "the first calls" python "$examples/quick_start.py" "shm:$name"
grep -q "^7.0 b.hello. 144$" "$place/log" || { cat "$place/log"; failed "what the first calls say"; }

# The feed handler in C, where the C door's tests have left it, read by a Python process that hears of each quote.
feed=$target/capi/feed
if [ -x "$feed" ]; then
    timeout 100 python "$examples/quotes.py" "$name" ACME 2000 >"$place/quotes" 2>&1 &
    reader=$!
    for _ in $(seq 200); do grep -q ready "$place/quotes" && break; sleep 0.1; done
    step "the feed" env LD_LIBRARY_PATH="$target/capi/prefix/lib" "$feed" "$name" ACME 2000
    wait "$reader" || { cat "$place/quotes"; failed "the reader of quotes"; }
    grep -q "2000 quotes of ACME, the last one 2000" "$place/quotes" || { cat "$place/quotes"; failed "what the reader of quotes says"; }
    passed=$((passed + 1))
fi

# The package as the index wants it. Left out, and said so, where twine cannot be had.
if [ -x "$place/venv/bin/twine" ] || pip -q install 'twine>=6' 2>"$place/log"; then
    step "twine check" twine check --strict "$place"/wheel/polderdb-*.whl
else
    echo "Python door: twine could not be had; the package's metadata are not checked"
fi

# Types: the stubs are those of the module, and a typed program passes at its strictest. Left out, and said so, where mypy cannot be had.
if [ -x "$place/venv/bin/mypy" ] || pip -q install 'mypy>=1.8,<2' 2>"$place/log"; then
    step "mypy --strict" python -m mypy --strict --cache-dir "$place/mypy" "$examples/leaderboard.py" "$examples/quick_start.py"
    step "the stub of the module" python -m mypy.stubtest --ignore-missing-stub polder._polder
else
    echo "Python door: mypy could not be had; the stubs are not checked"
fi
echo "Python door: $passed passed, 0 failed"
