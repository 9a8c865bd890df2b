#!/bin/sh
# The layer "C door" of `make test`: installs the library, builds its tests and examples against what was installed, and runs them under the
# address sanitizer, linked statically, and under valgrind; the examples beside a server.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
place=$target/capi
name=capi-$$
# Not below the target folder, whose name may be longer than a socket's may.
socket=${TMPDIR:-/tmp}/$name.sock
passed=0

rm -rf "$place"
mkdir -p "$place"
"$root/capi/build.sh" "$place/prefix" debug
export PKG_CONFIG_PATH="$place/prefix/lib/pkgconfig" LD_LIBRARY_PATH="$place/prefix/lib"
server= redis=
clean() {
    for each in $server $redis; do kill "$each" 2>/dev/null || true; done
    rm -f /dev/shm/"$name"-* /dev/shm/polder-"$name"-* /dev/shm/.polder-bell-*"$name"-* "$socket" "$socket.redis" 2>/dev/null || true
}
trap clean EXIT

step() {
    what=$1
    shift
    if timeout 120 "$@" >"$place/log" 2>&1; then
        passed=$((passed + 1))
    else
        tail -20 "$place/log"
        echo "C door: $what fails"
        echo "C door: $passed passed, 1 failed"
        exit 1
    fi
}
# expect WHAT TEXT COMMAND...: the command's output has the text in it.
expect() {
    what=$1 text=$2
    shift 2
    step "$what" "$@"
    grep -q -- "$text" "$place/log" || { cat "$place/log"; echo "C door: $what does not say $text"; echo "C door: $passed passed, 1 failed"; exit 1; }
}

warn="-std=gnu11 -g -Wall -Wextra -Werror -Wno-unused-function"
shared=$(pkg-config --cflags --libs polder)
# The libraries of Polder static and glibc shared, as valgrind wants it.
static="$(pkg-config --cflags polder) $place/prefix/lib/libpolder.a -lpthread -ldl -lm"
cd "$root/capi"
step "the sanitized build" cc $warn -fsanitize=address,undefined -fno-sanitize-recover=undefined tests/door.c -o "$place/door-asan" $shared
step "the static build" cc $warn tests/door.c -o "$place/door-static" $static
step "the sanitized hostile build" cc $warn -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined tests/hostile.c -o "$place/hostile-asan" $shared
step "the static hostile build" cc $warn -O1 tests/hostile.c -o "$place/hostile-static" $static
step "the feed's build" cc $warn examples/feed.c -o "$place/feed" $shared
step "the build of the first calls" cc $warn examples/quick_start.c -o "$place/quick_start" $shared
step "the sanitized build of the client's test" cc $warn -fsanitize=address,undefined -fno-sanitize-recover=undefined tests/client.c -o "$place/client-asan" $shared
step "the static build of the client's test" cc $warn tests/client.c -o "$place/client-static" $static
step "the sanitized build of hostile input to the client" cc $warn -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined \
    tests/hostile_client.c -o "$place/hostile-client-asan" $shared
step "the build of the jobs" cc $warn -fsanitize=address examples/jobs.c -o "$place/jobs" $shared
step "the leaderboard's build" cc $warn -fsanitize=address examples/leaderboard.c -o "$place/leaderboard" $shared
# As a program that knows the one header and links what pkg-config says.
cat >"$place/one.c" <<'END'
#include <polder.h>
int main(int count, char **words) {
    polder_memory memory;
    polder_caller caller;
    polder_text set[] = {polder_string("SET"), polder_string("greeting"), polder_string("hello")};
    return count < 2 || polder_attach(words[1], NULL, &memory) || polder_open(memory, &caller) || polder_run(caller, 3, set, NULL);
}
END
step "a program of one header, linked statically by pkg-config" cc $warn "$place/one.c" -o "$place/one-static" -static $(pkg-config --static --cflags --libs polder)
step "a program of one header, linked to the shared library" cc $warn "$place/one.c" -o "$place/one" $shared
printf '#include <polder_commands.h>\n#include <polder_client.h>\nint main() { return 0; }\n' >"$place/cxx.cc"
step "the build as C++" c++ -std=c++11 -Wall -Wextra -Werror -Wno-unused-function "$place/cxx.cc" -o "$place/cxx" $shared
step "a strict build" cc -std=c99 -pedantic -Wall -Wextra -Werror -Wno-unused-function -x c "$place/cxx.cc" -o "$place/c99" $shared
step "the man page" man -l --warnings=w "$place/prefix/share/man/man3/polder.3"
step "the man page of the client" man -l --warnings=w "$place/prefix/share/man/man3/polder_client.3"

expect "the sanitized run" "checks hold" "$place/door-asan" "shm:$name-asan"
expect "the static run" "checks hold" "$place/door-static" "shm:$name-static"
if command -v valgrind >/dev/null; then
    expect "the run under valgrind" "checks hold" valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite --child-silent-after-fork=yes \
        "$place/door-static" "shm:$name-valgrind"
fi

step "the program of one header" "$place/one" "shm:$name-one"
step "the program of one header, static" "$place/one-static" "shm:$name-one"

# Everything handed in wrongly, at random.
expect "hostile input under the sanitizer" "calls" "$place/hostile-asan" "shm:$name-hostile" "$$" 20000
if command -v valgrind >/dev/null; then
    expect "hostile input under valgrind" "calls" valgrind -q --error-exitcode=9 "$place/hostile-static" "shm:$name-hostile-valgrind" "$$" 700
fi

# A feed handler, read by a Redis client of a server and by another process.
"$target/debug/polder" serve --segment "shm:$name-feed" --port 0 --unixsocket "$socket" --threads 1 >"$place/serve" 2>&1 &
server=$!
for _ in $(seq 100); do redis-cli -s "$socket" ping >/dev/null 2>&1 && break; sleep 0.1; done
expect "the feed" "2000 quotes of ACME" "$place/feed" "shm:$name-feed" ACME 2000
expect "a Redis client beside the feed" "^2000$" redis-cli -s "$socket" hget quote:ACME serial
expect "the leaderboard" "ann: 7 points, place 1" "$place/leaderboard" "shm:$name-feed" add ann 7
expect "a second player" "bob: 3.5 points, place 2" "$place/leaderboard" "shm:$name-feed" add bob 3.5
expect "the first calls" "^hello$" "$place/quick_start" "shm:$name-feed"
expect "the best" "1. ann 7" "$place/leaderboard" "shm:$name-feed" top 10
expect "a Redis client beside the leaderboard" "^3.5$" redis-cli -s "$socket" zscore leaderboard bob

# The client of servers: beside Polder's server, shared memory, and redis-server.
expect "the client beside polder serve" "checks hold" "$place/client-asan" "unix:$socket" "$server"
expect "the client of shared memory" "checks hold" "$place/client-asan" "polder://shm:$name-client?create=yes" 0
redis-server --port 0 --unixsocket "$socket.redis" --save '' --dir "$place" >"$place/redis" 2>&1 &
redis=$!
for _ in $(seq 100); do redis-cli -s "$socket.redis" ping >/dev/null 2>&1 && break; sleep 0.1; done
expect "the client beside redis-server" "checks hold" "$place/client-asan" "unix:$socket.redis" "$redis"
expect "hostile input to the client" "calls submitted" "$place/hostile-client-asan" "unix:$socket.redis" "$$" 20000
expect "hostile input to the client of shared memory" "calls submitted" "$place/hostile-client-asan" "polder://shm:$name-client?create=yes" "$$" 20000
expect "the jobs" "1000 of 1000 jobs" "$place/jobs" "unix:$socket.redis" 1000
if command -v valgrind >/dev/null; then
    expect "the client under valgrind" "checks hold" env UNDER_VALGRIND=1 valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite --child-silent-after-fork=yes \
        "$place/client-static" "unix:$socket.redis" "$redis"
fi
echo "C door: $passed passed, 0 failed"
