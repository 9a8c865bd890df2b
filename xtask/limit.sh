#!/bin/sh
# limit.sh PROGRAM ARGUMENTS: runs a test program. One that takes longer than it may is a failure: it tells where
# its threads are, and is ended, so that the programs after it still run.
SECONDS_MAX=${POLDER_TEST_SECONDS_MAX:-600}
# The ids of a process and of all that it has started.
family() {
    echo "$1"
    for child in $(cat /proc/"$1"/task/*/children 2>/dev/null); do
        family "$child"
    done
}

"$@" &
program=$!
(
    # A child that outlives the program must not keep the pipe of this script's output open.
    exec 3>&1 >/dev/null
    sleep "$SECONDS_MAX" 3>&- &
    sleeper=$!
    trap 'kill "$sleeper" 2>/dev/null; exit' TERM
    wait "$sleeper"
    echo "limit.sh: $1 has run for more than $SECONDS_MAX s, and is stopped" >&3
    processes=$(family "$program")
    for id in $processes; do
        echo "limit.sh: process $id: $(tr '\0' ' ' </proc/"$id"/cmdline)" >&3
        for task in /proc/"$id"/task/*; do
            echo "limit.sh: $(cat "$task/comm"), $(cut -d' ' -f3 "$task/stat"), $(cat "$task/wchan"), system call $(cat "$task/syscall")" >&3
        done
        command -v gdb >/dev/null && gdb -p "$id" -batch -ex 'thread apply all backtrace 12' 2>/dev/null | grep '^[#T]' | cut -c1-200 >&3
    done
    kill -KILL $processes
) &
watcher=$!
# Not before: a signal that meets the watcher while it still has this trap would be lost, and it would run to its end.
trap 'kill "$program" 2>/dev/null' TERM INT
wait "$program"
status=$?
kill "$watcher" 2>/dev/null
exit "$status"
