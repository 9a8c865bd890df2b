"""Everything that Python may hand in wrongly, at random: an exception, never the end of the process, and afterwards all is well. ``SEED`` in the
environment repeats a run."""
import gc
import os
import random
import sys
import threading
import time

import redis

import polder
import scene
from polder._polder import NAMES, Caller, Memory, Strings

SEGMENT = scene.segment("hostile")
# What a caller may be told; anything else is a defect (AssertionError, SystemError, PanicException ...).
TOLD = (TypeError, ValueError, OverflowError, LookupError, AttributeError, RuntimeError, polder.Fault, polder.Refused, polder.Ended, redis.RedisError)
# These wait for ever, stop the process, hold up everybody, or take the default user's rights away.
LEFT_OUT = {"debug", "shutdown", "blpop", "brpop", "blmove", "blmpop", "brpoplpush", "bzpopmin", "bzpopmax", "bzmpop", "xread", "xreadgroup",
            "client_pause", "client_kill", "client_reply", "wait", "waitaof", "failover", "migrate", "save", "bgsave", "acl_setuser", "acl_deluser",
            "acl_load", "acl_save", "config_set", "config_rewrite", "auth", "hello", "replicaof", "slaveof", "monitor", "flushall", "psync", "sync", "eval",
            "eval_ro", "evalsha", "evalsha_ro", "fcall", "fcall_ro", "client_no_evict", "quit", "reset", "bgrewriteaof"}


class Odd:
    """Whatever is done with it says no, or calls back in."""

    def __init__(self, call):
        self.call = call

    def __str__(self):
        self.call()
        raise ValueError("no text")

    __repr__ = __bytes__ = __index__ = __hash__ = __len__ = __str__


def thing(rng, back):
    return rng.choice([
        lambda: b"k", lambda: "k", lambda: "l", lambda: b"", lambda: "", lambda: b"\x00" * rng.randrange(70000), lambda: "\ud800", lambda: "\u20ac" * rng.randrange(9),
        lambda: rng.randrange(-(2**70), 2**70), lambda: rng.randrange(-2, 3), lambda: True, lambda: None, lambda: 1.5, lambda: float("nan"), lambda: float("inf"),
        lambda: [], lambda: [b"GET", b"k"], lambda: [b"GET", "k"], lambda: [b"MULTI"], lambda: [b"EXEC"], lambda: [b"SUBSCRIBE", b"c"], lambda: [b"BLPOP", b"none", b"0.001"], lambda: (b"k",),
        lambda: {"k": 1}, lambda: bytearray(b"k"), lambda: memoryview(b"k"), lambda: Odd(back), lambda: object(), lambda: Memory, lambda: 2**63, lambda: -1, lambda: 256, lambda: "0",
    ])()


class Actor:
    def __init__(self, seed, r, shared):
        self.rng, self.r, self.shared = random.Random(seed), r, shared
        self.told = self.steps = 0

    def back(self):
        if self.steps % 3 == 0:
            self.r.get("k")

    def step(self):
        rng, memory = self.rng, self.r.memory
        thing_ = lambda: thing(rng, self.back)
        things = [thing_() for _ in range(rng.randrange(5))]
        callers = self.shared
        caller = rng.choice(callers)
        method = rng.choice([
            lambda: rng.choice([memory.get, memory.set, memory.delete, memory.add])(*things),
            lambda: rng.choice([memory.get, memory.set])(*things, db=thing_()),
            lambda: caller.start(thing_()), lambda: caller.call(*things), lambda: caller.resume(), lambda: caller.cancel(), lambda: caller.until_ms(),
            lambda: caller.rest(rng.choice([0, -1.0, 0.001, float("nan"), thing_()]) if rng.random() < 0.5 else 0), lambda: caller.hear(),
            lambda: os.close(caller.fileno()), lambda: caller.admit(), lambda: caller.is_elsewhere(),
            lambda: callers.__setitem__(rng.randrange(len(callers)), Caller(memory, rng.choice([2, 3]), rng.choice([redis.ResponseError, self.refuse, str]))),
            lambda: Caller(*things), lambda: Strings(*things),
            # A name that is one would be made.
            lambda: Memory("shm:a/b" if things and isinstance(things[0], str) else things[0] if things else None),
            lambda: self.cache(things), lambda: self.command(things),
            lambda: rng.choice([self.r.get, self.r.set, self.r.hset, self.r.zadd, self.r.lpush, self.r.execute_command])(*things),
            lambda: gc.collect() if rng.random() < 0.02 else None,
        ])
        self.steps += 1
        try:
            method()
        except TOLD:
            self.told += 1

    def refuse(self, text):
        # An error's maker may fail, and may call back in.
        self.back()
        if self.rng.random() < 0.3:
            raise ValueError(text)
        return redis.ResponseError(text)

    def cache(self, things):
        cache = self.r.cache(self.rng.choice(["", "c:"]))
        name = self.rng.choice(["get", "__getitem__", "__setitem__", "__delitem__", "__contains__", "add", "set", "set_until", "ttl", "pop"])
        getattr(cache, name)(*things)

    def command(self, things):
        name = self.rng.choice(sorted(NAMES))
        if name not in LEFT_OUT:
            getattr(self.calls(), name)(*[word for word in things if not isinstance(word, Odd)])

    def calls(self):
        return polder.Commands(self.r.memory, db=self.rng.choice([0, 0, 3]), protocol=self.rng.choice([2, 3]), decode=self.rng.random() < 0.5)


def act(actor, failures, until, steps):
    try:
        while actor.steps < steps and time.monotonic() < until:
            actor.step()
    except BaseException as failure:
        failures.append(failure)
        raise


def main():
    seed = int(os.environ.get("SEED", os.getpid()))
    steps = int(os.environ.get("STEPS", 6000))
    r = polder.attach(SEGMENT, ceiling=128 << 20)
    failures = []
    try:
        shared = [Caller(r.memory, 2, redis.ResponseError) for _ in range(8)]
        actors = [Actor(seed + number, r, shared) for number in range(3)]
        threads = [threading.Thread(target=act, args=(actor, failures, time.monotonic() + 60, steps)) for actor in actors]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert not failures, f"{failures}; SEED={seed}"
        # Whoever does it right is served.
        fresh = polder.attach(SEGMENT)
        assert fresh.set("own", "v") and fresh.get("own") == b"v"
        print(f"Python hostile input: {sum(actor.steps for actor in actors)} calls, {sum(actor.told for actor in actors)} refused, SEED={seed}")
    finally:
        polder.Memory.remove(SEGMENT)


if __name__ == "__main__":
    sys.exit(main())
