#!/bin/sh
# limit.sh PROCESS SECONDS: ends a test program that was silent for too long, and all that it has started, after telling
# where their threads are. The programs after it still run.

# The ids of a process and of all that it has started.
family() {
    echo "$1"
    for child in $(cat /proc/"$1"/task/*/children 2>/dev/null); do
        family "$child"
    done
}

processes=$(family "$1")
echo "limit.sh: process $1 has printed nothing for $2 s, and is stopped"
for id in $processes; do
    echo "limit.sh: process $id: $(tr '\0' ' ' </proc/"$id"/cmdline)"
    for task in /proc/"$id"/task/*; do
        echo "limit.sh: $(cat "$task/comm"), $(cut -d' ' -f3 "$task/stat"), $(cat "$task/wchan"), system call $(cat "$task/syscall")"
    done
    command -v gdb >/dev/null && gdb -p "$id" -batch -ex 'thread apply all backtrace 12' 2>/dev/null | grep '^[#T]' | cut -c1-200
done
kill -KILL $processes
