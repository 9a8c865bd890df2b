"""Polder: one memory that many processes share, in this process.

``attach("name")`` gives an object with redis-py's methods and reply types; no server is needed, and those that serve the same memory see the same
keys. It is a ``redis.Redis``, so pipelines, scripts, locks, subscriptions and ``decode_responses`` are what they are there::

    import polder
    r = polder.attach("app")          # instead of redis.Redis(host=...)
    r.hset("user:1", mapping={"name": "ann"})

For plain caching it is a mapping of its own, and the fastest way in::

    cache = polder.cache("app")
    cache["k"] = b"v"
    cache.set("k", b"v", ttl=60)

    @cache.memoize(ttl=60)            # computed once, however many processes want it at once
    def price(symbol): ...

What Polder itself raises is a ``polder.Error``; redis-py's methods raise redis-py's errors. Objects that were attached can be pickled: they attach
the same memory where they are unpickled.

And with a typed method for each command, whose replies are as the protocol has them::

    calls = polder.Commands(polder.memory("app"))
    calls.zadd("board", "NX", 1.5, "ann")

A server's client, too, over one connection that all threads share (``polder.aio.connect`` for an event loop)::

    r = polder.connect("redis://127.0.0.1:6379")
"""
from polder import aio
from polder._polder import VERSION as __version__
from polder._polder import Changes, Ended, Error, Fault, Memory, Refused
from polder.cache import Cache, CacheInfo, Memoized
from polder.client import Connection, Polder, attach, cache, memory
from polder.commands import Commands
from polder.remote import Client, Condition, Contended, NotSent, OutcomeUnknown, TimedOut, Unmet, Usage, connect

__all__ = [
    "Cache", "CacheInfo", "Changes", "Client", "Commands", "Condition", "Connection", "Contended", "Ended", "Error", "Fault", "Memoized", "Memory",
    "NotSent", "OutcomeUnknown", "Polder", "Refused", "TimedOut", "Unmet", "Usage", "__version__", "aio", "attach", "cache", "connect", "memory",
]
