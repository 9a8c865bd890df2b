"""Plain caching: strings as a mapping, and functions whose results are kept."""
import functools
import hashlib
import pickle
import time
import uuid
from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar, Union

from polder._polder import Memory, Strings

if TYPE_CHECKING:
    # The mapping of the keys and values that come back; keys may be texts as well.
    _Mapping = MutableMapping[Any, Any]
else:
    _Mapping = MutableMapping

_Function = TypeVar("_Function", bound=Callable[..., Any])

# How long a wait for somebody who computes lasts at a time.
_NAP = 1.0

_RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
redis.call('PUBLISH', KEYS[1], '')
"""


class Cache(Strings, _Mapping):
    """Bytes by keys that are text or bytes. Every process that attaches the memory has the same ones."""

    def __new__(cls, memory: Memory, client: Any, prefix: Union[str, bytes] = "", db: int = 0) -> "Cache":
        return super().__new__(cls, memory, prefix.encode() if isinstance(prefix, str) else prefix, db)

    def __init__(self, memory: Memory, client: Any, prefix: Union[str, bytes] = "", db: int = 0) -> None:
        self._memory = memory
        self._client = client
        self._prefix = prefix.encode() if isinstance(prefix, str) else prefix
        self._db = db

    def _key(self, key):
        return self._prefix + (key.encode() if isinstance(key, str) else key) if self._prefix else key

    def set(self, key: Union[str, bytes], value: Union[str, bytes], ttl: Optional[float] = None) -> None:
        """Sets a key, for ever or for ``ttl`` seconds."""
        if ttl is None:
            self[key] = value
        else:
            self.set_until(key, value, int((time.time() + ttl) * 1000))

    def ttl(self, key: Union[str, bytes]) -> Optional[float]:
        """Seconds that a key has left; None: for ever, or not there."""
        left = self._client.pttl(self._key(key))
        return left / 1000 if left >= 0 else None

    def __iter__(self) -> Iterator[bytes]:
        pattern = b"".join(b"\\" + bytes([byte]) if byte in b"*?[]\\" else bytes([byte]) for byte in self._prefix) + b"*"
        for key in self._client.scan_iter(match=pattern, count=1000, _type="string"):
            yield key[len(self._prefix):]

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def memoize(
        self,
        ttl: Optional[float] = None,
        name: Optional[str] = None,
        patience: float = 30.0,
        dumps: Callable[[Any], bytes] = pickle.dumps,
        loads: Callable[[bytes], Any] = pickle.loads,
    ) -> Callable[[_Function], _Function]:
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
