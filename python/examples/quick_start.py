"""The first calls on a memory: ``quick_start.py [SEGMENT]``."""
import sys

import polder

segment = sys.argv[1] if len(sys.argv) > 1 else "shm:tour"

r = polder.attach(segment)                 # a redis.Redis that needs no server
r.zadd("players", {"ann": 7})

cache = polder.cache(segment)              # a mapping that all processes share


@cache.memoize(ttl=60)                     # one process computes, the others wait for its result
def square(number: int) -> int:
    return number * number


cache.set("greeting", "hello", ttl=60)
print(r.zscore("players", "ann"), cache["greeting"], square(12))
