"""Plain caching: strings as a mapping, and functions whose results are kept."""
import functools
import hashlib
import inspect
import pickle
import time
import uuid
from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, Protocol, TypeVar, Union, overload

from polder._polder import Memory, Strings

if TYPE_CHECKING:
    # The mapping of the keys and values that come back; keys may be texts as well.
    _Mapping = MutableMapping[Any, Any]
else:
    _Mapping = MutableMapping

_Result = TypeVar("_Result", covariant=True)

# How long a thread that waits for another one's result sleeps at a time.
_NAP = 1.0

# So many keys are read, or deleted, in one call.
_BATCH = 1000

# The name of a result ends with so many digits, and that of its lock with this as well.
_DIGEST = 64
_LOCK = b":lock"

_RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
redis.call('PUBLISH', KEYS[1], '')
"""


class CacheInfo(NamedTuple):
    """As ``functools.lru_cache`` has it: the hits and misses of this process, and how many results the memory holds now."""

    hits: int
    misses: int
    maxsize: Optional[int]
    currsize: int


class Memoized(Protocol[_Result]):
    """A function whose results are kept."""

    __wrapped__: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> _Result: ...

    def cache_clear(self) -> None:
        """Deletes the function's results from the memory, for all processes."""

    def cache_info(self) -> CacheInfo:
        """Counts; ``currsize`` reads through the keys of the database."""


class Cache(Strings, _Mapping):
    """Bytes by keys that are text or bytes. Every process that attaches the memory has the same ones. A pickled cache attaches the same memory
    where it is unpickled."""

    def __new__(cls, memory: Memory, client: Any, prefix: Union[str, bytes] = "", db: int = 0) -> "Cache":
        return super().__new__(cls, memory, prefix.encode() if isinstance(prefix, str) else prefix, db)

    def __init__(self, memory: Memory, client: Any, prefix: Union[str, bytes] = "", db: int = 0) -> None:
        self._memory = memory
        self._client = client
        self._prefix = prefix.encode() if isinstance(prefix, str) else prefix
        self._db = db

    def __reduce__(self) -> Any:
        return type(self), (self._memory, self._client, self._prefix, self._db)

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

    def _scan(self, prefix):
        """The whole names of the strings that begin so."""
        pattern = b"".join(b"\\" + bytes([byte]) if byte in b"*?[]\\" else bytes([byte]) for byte in prefix) + b"*"
        return self._client.scan_iter(match=pattern, count=_BATCH, _type="string")

    def _results(self, prefix):
        """The results of a memoized function, without those of a function whose name goes on where this one's ends."""
        return (key for key in self._scan(prefix) if len(key) == len(prefix) + _DIGEST)

    def _delete(self, keys):
        """Deletes keys many at a time."""
        batch = []
        for key in keys:
            batch.append(key)
            if len(batch) == _BATCH:
                self._client.unlink(*batch)
                batch.clear()
        if batch:
            self._client.unlink(*batch)

    def __iter__(self) -> Iterator[bytes]:
        for key in self._scan(self._prefix):
            yield key[len(self._prefix):]

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def clear(self) -> None:
        """Deletes every string of the mapping, in one pass; one that another thread sets meanwhile may stay."""
        self._delete(self._scan(self._prefix))

    @overload
    def memoize(self, function: Callable[..., _Result], /) -> Memoized[_Result]: ...

    @overload
    def memoize(
        self,
        /,
        *,
        ttl: Optional[float] = None,
        name: Optional[str] = None,
        patience: float = 30.0,
        dumps: Callable[[Any], bytes] = pickle.dumps,
        loads: Callable[[bytes], Any] = pickle.loads,
    ) -> Callable[[Callable[..., _Result]], Memoized[_Result]]: ...

    def memoize(
        self,
        function: Optional[Callable[..., Any]] = None,
        /,
        *,
        ttl: Optional[float] = None,
        name: Optional[str] = None,
        patience: float = 30.0,
        dumps: Callable[[Any], bytes] = pickle.dumps,
        loads: Callable[[bytes], Any] = pickle.loads,
    ) -> Any:
        """Keeps a function's results, for ever or for ``ttl`` seconds: ``@cache.memoize`` or ``@cache.memoize(ttl=60)``.

        If several threads, in any process, want the same result at once, one computes it and the others wait for it. If that process dies, the
        next one computes after ``patience`` seconds (longer than the function ever takes). Arguments must be picklable, and equal ones must pickle
        alike. ``name`` replaces the function's module and qualified name in the keys. The function gets ``cache_clear()`` and ``cache_info()``,
        as from ``functools.lru_cache``."""

        def decorate(function):
            if not callable(function):
                raise TypeError(f"memoize takes a function, not {function!r}: use @cache.memoize or @cache.memoize(ttl=60)")
            if inspect.iscoroutinefunction(function):
                raise TypeError(f"memoize cannot keep the result of {function.__qualname__}: it is a coroutine function")
            return self._memoized(function, name or f"{function.__module__}.{function.__qualname__}", ttl, patience, dumps, loads)

        return decorate if function is None else decorate(function)

    def _memoized(self, function, label, ttl, patience, dumps, loads):
        results = self._prefix + f"memo:{label}:".encode()
        hits = misses = 0

        @functools.wraps(function)
        def memoized(*args, **kwargs):
            nonlocal hits, misses
            digest = hashlib.sha256(pickle.dumps((args, sorted(kwargs.items())), 4)).hexdigest()
            key = results + digest.encode()
            kept = self._memory.get(key, self._db)
            if kept is not None:
                hits += 1
                return loads(kept)
            misses += 1
            return loads(self._compute(key, lambda: dumps(function(*args, **kwargs)), ttl, patience))

        def cache_clear():
            nonlocal hits, misses
            hits = misses = 0
            self._delete(self._results(results))

        def cache_info():
            return CacheInfo(hits, misses, None, sum(1 for _ in self._results(results)))

        memoized.cache_clear = cache_clear
        memoized.cache_info = cache_info
        return memoized

    def _compute(self, key, work, ttl, patience):
        lock, token = key + _LOCK, uuid.uuid4().hex.encode()
        while True:
            if self._client.set(lock, token, nx=True, px=int(patience * 1000)):
                try:
                    # Between the look and the lock, another thread may have finished.
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
                # The computing thread may have finished before this one listened.
                if self._client.exists(lock):
                    waiting.get_message(ignore_subscribe_messages=True, timeout=0)
                    waiting.get_message(ignore_subscribe_messages=True, timeout=_NAP)
            kept = self._memory.get(key, self._db)
            if kept is not None:
                return kept
