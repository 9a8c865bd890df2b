"""Millions of calls a second by Python: run by `cargo x bench python`, which says where redis-server listens.

    door.py MEMORY SOCKET SECONDS PROCESSES      prints lines of a name, a tab and a figure
"""
import multiprocessing
import sys
import time

import redis

import polder

KEYS = [f"key:{number:012}" for number in range(10000)]
VALUE = b"0123456789abcdef"


def doors(name, socket):
    """What is called: by name, a function that takes a key."""
    r = polder.attach(name)
    cache, memory, over_socket = r.cache(), r.memory, redis.Redis(unix_socket_path=socket)
    return {
        "cache get": cache.get,
        "cache set": lambda key, cache=cache: cache.__setitem__(key, VALUE),
        "memory get": memory.get,
        "memory set": lambda key, set=memory.set: set(key, VALUE),
        "client get": lambda key: r.get(key),
        "client set": lambda key: r.set(key, VALUE),
        "socket get": over_socket.get,
        "socket set": lambda key: over_socket.set(key, VALUE),
    }


def rate(call, seconds):
    """Calls a second, over all keys again and again."""
    count, began, until = 0, time.perf_counter(), time.perf_counter() + seconds
    while time.perf_counter() < until:
        for key in KEYS[:500] if count == 0 else KEYS:
            call(key)
            count += 1
            if count % 500 == 0 and time.perf_counter() >= until:
                break
    return count / (time.perf_counter() - began)


def part(name, socket, label, seconds, barrier, results):
    call = doors(name, socket)[label]
    call(KEYS[0])
    barrier.wait()
    results.put(rate(call, seconds))


def together(name, socket, label, seconds, processes):
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(processes), context.Queue()
    started = [context.Process(target=part, args=(name, socket, label, seconds, barrier, results)) for _ in range(processes)]
    [process.start() for process in started]
    sum_of_all = sum(results.get() for _ in started)
    [process.join() for process in started]
    return sum_of_all


def main(name, socket, seconds, processes):
    for label, call in doors(name, socket).items():
        call(KEYS[0])
        print(f"{label} M/s\t{rate(call, seconds) / 1e6}", flush=True)
    for label in ("cache get", "client get", "socket get", "cache set", "client set", "socket set"):
        for count in (1, 2, processes):
            print(f"{count} processes, {label} M/s\t{together(name, socket, label, seconds, count) / 1e6}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]))
