"""Plain caching: strings as a mapping, and functions whose results are kept."""
import functools
import hashlib
import pickle
import time
import uuid
from collections.abc import MutableMapping

# How long a wait for somebody who computes lasts at a time.
_NAP = 1.0

_RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
redis.call('PUBLISH', KEYS[1], '')
"""


class Cache(MutableMapping):
    """Bytes by keys that are text or bytes. Every process that attaches the memory has the same ones."""

    def __init__(self, memory, client, prefix="", db=0):
        self._memory = memory
        self._client = client
        self._prefix = prefix.encode() if isinstance(prefix, str) else prefix
        self._db = db

    def _key(self, key):
        return self._prefix + (key.encode() if isinstance(key, str) else key) if self._prefix else key

    def __getitem__(self, key):
        value = self._memory.get(self._key(key), self._db)
        if value is None:
            raise KeyError(key)
        return value

    def get(self, key, default=None):
        value = self._memory.get(self._key(key), self._db)
        return default if value is None else value

    def __setitem__(self, key, value):
        self._memory.set(self._key(key), value, None, self._db)

    def set(self, key, value, ttl=None):
        """Sets a key, for ever or for ``ttl`` seconds."""
        until = None if ttl is None else int((time.time() + ttl) * 1000)
        self._memory.set(self._key(key), value, until, self._db)

    def __delitem__(self, key):
        if not self._memory.delete(self._key(key), self._db):
            raise KeyError(key)

    def __contains__(self, key):
        return self._memory.get(self._key(key), self._db) is not None

    def add(self, key, by=1):
        """Adds to the integer in a key, where an absent one counts as 0; answers the sum."""
        return self._memory.add(self._key(key), by, self._db)

    def ttl(self, key):
        """Seconds that a key has left; None: for ever, or not there."""
        left = self._client.pttl(self._key(key))
        return left / 1000 if left >= 0 else None

    def __iter__(self):
        pattern = b"".join(b"\\" + bytes([byte]) if byte in b"*?[]\\" else bytes([byte]) for byte in self._prefix) + b"*"
        for key in self._client.scan_iter(match=pattern, count=1000, _type="string"):
            yield key[len(self._prefix):]

    def __len__(self):
        return sum(1 for _ in self)

    def memoize(self, ttl=None, name=None, patience=30.0, dumps=pickle.dumps, loads=pickle.loads):
        """Keeps a function's results. Of all who want one at once, in whatever process, one computes it and the others wait for it; should
        he die, the next one computes after ``patience`` seconds (longer than the function ever takes). Arguments must be picklable, and equal ones must pickle alike."""

        def decorate(function):
            label = name or f"{function.__module__}.{function.__qualname__}"

            @functools.wraps(function)
            def memoized(*args, **kwargs):
                digest = hashlib.sha256(pickle.dumps((args, sorted(kwargs.items())), 4)).hexdigest()
                key = self._prefix + f"memo:{label}:{digest}".encode()
                kept = self._memory.get(key, self._db)
                if kept is not None:
                    return loads(kept)
                return loads(self._compute(key, lambda: dumps(function(*args, **kwargs)), ttl, patience))

            memoized.__wrapped__ = function
            return memoized

        return decorate

    def _compute(self, key, work, ttl, patience):
        lock, token = key + b":lock", uuid.uuid4().hex.encode()
        while True:
            if self._client.set(lock, token, nx=True, px=int(patience * 1000)):
                try:
                    # Between the look and the lock, somebody may have been done.
                    kept = self._memory.get(key, self._db)
                    if kept is None:
                        kept = work()
                        until = None if ttl is None else int((time.time() + ttl) * 1000)
                        self._memory.set(key, kept, until, self._db)
                    return kept
                finally:
                    self._client.eval(_RELEASE, 1, lock, token)
            with self._client.pubsub() as waiting:
                waiting.subscribe(lock)
                # He may have ended before we listened.
                if self._client.exists(lock):
                    waiting.get_message(ignore_subscribe_messages=True, timeout=0)
                    waiting.get_message(ignore_subscribe_messages=True, timeout=_NAP)
            kept = self._memory.get(key, self._db)
            if kept is not None:
                return kept
