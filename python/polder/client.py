"""redis-py over an attached memory: a connection class whose requests go nowhere but into this process."""
import os
import threading
import time
import weakref
from collections import deque
from contextlib import contextmanager
from typing import Any, Optional, Union

import redis
from redis._parsers import BaseParser
from redis.client import EMPTY_RESPONSE, NEVER_DECODE
from redis.connection import AbstractConnection

from polder._polder import PLAIN, Caller, Ended, Fault, Memory, FastCommand
from polder.cache import Cache

_memories = {}
_lock = threading.Lock()
_pools = weakref.WeakSet()
_clients = weakref.WeakSet()


def memory(name: str, ceiling: Optional[int] = None, create: bool = True, owner: str = "") -> Memory:
    """The memory of a name, attached once in a process; a forked child goes on with its parent's. Where the segment has been removed since, one
    that has the name now is attached, or made."""
    segment = name if ":" in name else f"shm:{name}"
    with _lock:
        known = _memories.get(segment)
        if known is None or known.removed:
            known = _memories[segment] = Memory(segment, ceiling, create, owner)
        return known


_LOCKS = {type(make()): make for make in (threading.Lock, threading.RLock)}


def _renew_locks_of(holder, renewed, seen):
    """Gives a client or a pool, and what of redis-py it is made of, locks that are free. What shares a lock goes on to share one."""
    if id(holder) in seen or not hasattr(holder, "__dict__"):
        return
    seen.add(id(holder))
    for name, part in list(vars(holder).items()):
        if type(part) in _LOCKS:
            # The old one stays, so that no other lock gets its id.
            setattr(holder, name, renewed.setdefault(id(part), (_LOCKS[type(part)](), part))[0])
        elif type(part).__module__.startswith(("redis.", "polder.")):
            _renew_locks_of(part, renewed, seen)


def _renew_locks():
    # A thread of the parent may have held them, and redis-py makes none of them anew: those of a pool, of a client, and of the dispatcher of
    # events that all subscriptions of a client go through.
    global _lock
    _lock = threading.Lock()
    renewed, seen = {}, set()
    for holder in [*_pools, *_clients]:
        _renew_locks_of(holder, renewed, seen)
    # It may have been inside a call, too.
    for client in list(_clients):
        client._shut()


os.register_at_fork(after_in_child=_renew_locks)

# How long a caller rests before Python looks for signals.
_NAP = 0.1

# Newer versions of redis-py name how long a read may take; without it, the connection's timeout holds.
_UNSAID = object()


def run_words(caller, words, patience=None):
    """The replies to a call, however long it waits, or for so many seconds at most."""
    replies = caller.start(words)
    if replies is None:
        until = None if patience is None else time.monotonic() + patience
        try:
            while replies is None:
                left = _NAP if until is None else until - time.monotonic()
                if left <= 0:
                    raise redis.TimeoutError("Timeout reading from memory")
                caller.rest(min(left, _NAP))
                replies = caller.resume()
        except BaseException:
            caller.cancel()
            raise
    return replies


def _library(connection):
    """The name and the version of the library that a connection tells the server: since redis-py 7 its ``driver_info`` says so."""
    if hasattr(connection, "driver_info"):
        driver = connection.driver_info
        return (driver.formatted_name, driver.lib_version) if driver else (None, None)
    return connection.lib_name, connection.lib_version


_parse_error = BaseParser.parse_error


def _error(text):
    return _parse_error(text)


@contextmanager
def told():
    """What a caller says, as redis-py says it of a connection."""
    try:
        yield
    except (Ended, Fault) as failure:
        raise redis.ConnectionError(str(failure)) from failure


class Connection(AbstractConnection):
    """What redis-py takes for a connection. While it listens it belongs to its thread, like every caller that listens: another thread that goes on
    with it subscribes again, and what the first one had not been shown by then is lost."""

    def __init__(self, memory=None, **options):
        self._memory = memory
        self._caller = None
        self._replies = deque()
        # From redis-py 8 on a timeout of five seconds is the default, which is meant for a network: a call that waits for a key may take longer.
        options.setdefault("socket_timeout", None)
        super().__init__(**options)

    def repr_pieces(self):
        return [("db", self.db)]

    def _host_error(self):
        return "memory"

    def _connect(self):
        return None

    @property
    def is_connected(self):
        return self._caller is not None

    def connect(self):
        if self._caller is not None:
            return
        self._caller = self._introduced()
        if self.redis_connect_func is not None:
            self.redis_connect_func(self)
        self._connect_callbacks = [reference for reference in self._connect_callbacks if reference()]
        for reference in self._connect_callbacks:
            callback = reference()
            if callback:
                callback(self)

    def _introduced(self, decode=False):
        """A new caller that has said who it is."""
        with told():
            caller = Caller(self._memory, int(self.protocol or 2), _error, decode)
            for words in self._greeting():
                (reply,) = caller.start(words)
                # Who may not say what library he uses goes on without.
                if isinstance(reply, Exception) and words[1] != b"SETINFO":
                    raise reply
        return caller

    def plain_caller(self):
        """One for calls that never wait, with replies decoded as this connection's are."""
        return self._introduced(self.encoder.decode_responses)

    def _greeting(self):
        """What a connection says first."""
        encode = self.encoder.encode
        if self.credential_provider or self.username or self.password:
            provider = self.credential_provider or redis.UsernamePasswordCredentialProvider(self.username, self.password)
            yield [b"AUTH", *(bytes(encode(word)) for word in provider.get_credentials())]
        if self.client_name:
            yield [b"CLIENT", b"SETNAME", bytes(encode(self.client_name))]
        library, version = _library(self)
        if library:
            yield [b"CLIENT", b"SETINFO", b"LIB-NAME", bytes(encode(library))]
        if version:
            yield [b"CLIENT", b"SETINFO", b"LIB-VER", bytes(encode(version))]
        if self.db:
            yield [b"SELECT", str(self.db).encode()]

    def disconnect(self, *args, **_):
        self._caller = None
        self._replies.clear()

    def check_health(self):
        pass

    def pack_command(self, *args):
        encode = self.encoder.encode
        words = []
        for arg in args:
            # As redis-py: a first word with blanks is several words ("CLIENT LIST").
            if not words and isinstance(arg, str) and " " in arg:
                words.extend(word.encode() for word in arg.split())
            else:
                words.append(bytes(encode(arg)))
        return [words]

    def pack_commands(self, commands):
        return [words for command in commands for words in self.pack_command(*command)]

    def send_packed_command(self, command, check_health=True):
        if self._caller is None:
            self.connect()
        try:
            with told():
                for words in command:
                    self._replies.extend(run_words(self._here(), words, self.socket_timeout))
                    if words[0].upper() == b"QUIT":
                        # The next call connects again.
                        self._caller = None
                        break
        except BaseException:
            # As redis-py: what comes next must not be part of this.
            self.disconnect()
            raise

    def send_command(self, *args, **kwargs):
        self.send_packed_command(self.pack_command(*args))

    def _here(self):
        """The caller, or another one that has subscribed to the same where that belongs to another thread."""
        try:
            self._caller.admit()
        except Ended:
            if not self._caller.is_elsewhere():
                raise
            self._caller = None
            self.connect()
        return self._caller

    def _give_up_thread(self):
        """Takes over what has been heard, and ends what listens in this thread, so that another one can go on without a loss."""
        with told():
            self._replies.extend(self._caller.hear())
        self._caller = None

    def can_read(self, timeout=0):
        if self._caller is None:
            self.connect()
        until = time.monotonic() + (timeout or 0)
        while not self._replies:
            with told():
                self._replies.extend(self._here().hear())
                left = until - time.monotonic()
                if self._replies or left <= 0:
                    break
                self._caller.rest(min(left, _NAP))
        return bool(self._replies)

    def read_response(self, disable_decoding=False, *, timeout=_UNSAID, disconnect_on_error=True, push_request=False, **_):
        patience = self.socket_timeout if timeout is _UNSAID else timeout
        while not self._replies:
            if self._caller is None:
                raise redis.ConnectionError("nothing has been asked of this connection")
            if not self.can_read(3600.0 if patience is None else patience) and patience is not None:
                if disconnect_on_error:
                    self.disconnect()
                raise redis.TimeoutError("Timeout reading from memory")
        reply = self._replies.popleft()
        if isinstance(reply, redis.RedisError):
            raise reply
        if not disable_decoding and self.encoder.decode_responses:
            return self._decoded(reply)
        return reply

    def _decoded(self, reply):
        if isinstance(reply, bytes):
            return self.encoder.decode(reply)
        if isinstance(reply, list):
            return [self._decoded(item) for item in reply]
        if isinstance(reply, dict):
            return {self._decoded(key): self._decoded(value) for key, value in reply.items()}
        return reply


class PubSub(redis.client.PubSub):
    """redis-py's, whose worker threads take the subscriptions with them."""

    def run_in_thread(self, *args, **kwargs):
        connection = self.connection
        if isinstance(connection, Connection) and connection.is_connected:
            connection._give_up_thread()
        return super().run_in_thread(*args, **kwargs)


# The methods that are called most: the command, how many arguments they may have, and what the last of them are if they are left out. Their
# arguments are those of the command, in its order.
_SHORT = {
    "append": ("APPEND", 2, 2),
    "decr": ("DECRBY", 1, 2, b"1"),
    "decrby": ("DECRBY", 1, 2, b"1"),
    "delete": ("DEL", 1, 100),
    "exists": ("EXISTS", 1, 100),
    "expire": ("EXPIRE", 2, 2),
    "get": ("GET", 1, 1),
    "getdel": ("GETDEL", 1, 1),
    "hdel": ("HDEL", 2, 100),
    "hexists": ("HEXISTS", 2, 2),
    "hget": ("HGET", 2, 2),
    "hgetall": ("HGETALL", 1, 1),
    "hincrby": ("HINCRBY", 2, 3, b"1"),
    "hlen": ("HLEN", 1, 1),
    "hset": ("HSET", 3, 3),
    "incr": ("INCRBY", 1, 2, b"1"),
    "incrby": ("INCRBY", 1, 2, b"1"),
    "lindex": ("LINDEX", 2, 2),
    "llen": ("LLEN", 1, 1),
    "lpop": ("LPOP", 1, 1),
    "lpush": ("LPUSH", 2, 100),
    "lrange": ("LRANGE", 3, 3),
    "pexpire": ("PEXPIRE", 2, 2),
    "pttl": ("PTTL", 1, 1),
    "rpop": ("RPOP", 1, 1),
    "rpush": ("RPUSH", 2, 100),
    "sadd": ("SADD", 2, 100),
    "scard": ("SCARD", 1, 1),
    "set": ("SET", 2, 2),
    "setex": ("SETEX", 3, 3),
    "sismember": ("SISMEMBER", 2, 2),
    "smembers": ("SMEMBERS", 1, 1),
    "srem": ("SREM", 2, 100),
    "strlen": ("STRLEN", 1, 1),
    "ttl": ("TTL", 1, 1),
    "zcard": ("ZCARD", 1, 1),
    "zincrby": ("ZINCRBY", 3, 3),
    "zrem": ("ZREM", 2, 100),
    "zscore": ("ZSCORE", 2, 2),
}


class Polder(redis.Redis):
    """redis-py's client on an attached memory; see ``attach``.

    Calls that never wait and belong to no connection (``PLAIN``: GET, HSET, ZADD, ...) take a shorter way than through a pool of connections: one
    caller serves all threads, since such a call is over before another thread gets its turn. The methods in ``_SHORT`` are hidden behind ways to the
    very caller, as attributes of the client, once it has made its first call; a subclass's own methods are not.
    """

    def __init__(self, *args, **options):
        self._call = None
        super().__init__(*args, **options)
        _clients.add(self)

    def __reduce__(self):
        # By name: the other process attaches the same memory.
        kept = getattr(self.connection_pool, "attached", None)
        if kept is None:
            raise TypeError("only a client that polder.attach has made can be pickled; attach in the other process")
        return _attach_again, (type(self), *kept)

    @property
    def memory(self) -> Memory:
        """The memory itself, for the shortest ways in."""
        return self.connection_pool.connection_kwargs["memory"]

    def cache(self, prefix: Union[str, bytes] = "") -> Cache:
        """The mapping of the strings in this database."""
        db = self.connection_pool.connection_kwargs.get("db", 0)
        # Keys are bytes here, whatever this client makes of them.
        plain = self if self._is_plain() else _over(self.memory, db, {})
        return Cache(self.memory, plain, prefix, db)

    def _is_plain(self):
        encoder = self.connection_pool.get_encoder()
        return type(self) is Polder and not encoder.decode_responses and encoder.encoding.lower() in ("utf-8", "utf8")

    def pubsub(self, **kwargs):
        return PubSub(self.connection_pool, event_dispatcher=self._event_dispatcher, **kwargs)

    def close(self):
        self._shut()
        super().close()

    def set_response_callback(self, command, callback):
        super().set_response_callback(command, callback)
        self._shut()

    def _shut(self):
        """Forgets the short ways; the next call opens them again."""
        self._call = None
        for name in _SHORT:
            self.__dict__.pop(name, None)

    def _open(self):
        """Makes the short ways, if there are any: answers what runs a call, or says that it does not."""
        pool = self.connection_pool
        encoder = pool.get_encoder()
        usual = encoder.encoding.lower() in ("utf-8", "utf8") and encoder.encoding_errors == "strict"
        if not usual or self.connection is not None or not issubclass(pool.connection_class, Connection):
            call = self._call = _unfit
            return call
        caller = pool.connection_class(**pool.connection_kwargs).plain_caller()
        call = self._call = caller.call
        own, kind = weakref.ref(self), type(self)
        # What a subclass sees all calls by, it is to see them by.
        hidden = _SHORT.items() if kind.execute_command is Polder.execute_command else ()
        for name, (command, least, most, *rest) in hidden:
            if getattr(kind, name) is getattr(Polder, name):
                callback = _get(self.response_callbacks, command)
                self.__dict__[name] = FastCommand(caller, command.encode(), least, most, rest, callback, own, name)
        return call

    def execute_command(self, *args, **options):
        name = args[0]
        if name in PLAIN and NEVER_DECODE not in options:
            try:
                reply = (self._call or self._open())(*args)
            except redis.ResponseError:
                if EMPTY_RESPONSE in options:
                    return options[EMPTY_RESPONSE]
                raise
            except (Ended, Fault) as failure:
                self._shut()
                raise redis.ConnectionError(str(failure)) from failure
            if reply is not NotImplemented:
                callback = _get(self.response_callbacks, name)
                if callback is None:
                    return reply
                options.pop("keys", None)
                options.pop(EMPTY_RESPONSE, None)
                return callback(reply, **options)
        return super().execute_command(*args, **options)


def _unfit(*_):
    return NotImplemented


# The callbacks' own way to look a name up makes it upper-case first, which those in PLAIN are.
_get = dict.get


def attach(
    name: str = "polder", *, db: int = 0, ceiling: Optional[int] = None, create: bool = True, owner: str = "", **options: Any
) -> "Polder":
    """redis-py's client on the memory of a name: ``shm:NAME`` (or just NAME), ``sysv:NAME`` or ``file:PATH``.

    ``ceiling`` is the most bytes it may grow to, where it is made. ``owner`` names the user (or its number, or ``any``) whose segment may be
    attached, beside one's own and root's: the owner of a segment controls each process that attaches it. ``options`` are those of a redis-py connection: ``decode_responses``,
    ``encoding``, ``protocol``, ``client_name`` ...
    """
    return _over(memory(name, ceiling, create, owner), db, options)


def _over(attached, db, options, kind=Polder):
    pool = redis.ConnectionPool(connection_class=Connection, memory=attached, db=db, **options)
    # What another process needs to do the same.
    pool.attached = (attached.segment, db, options)
    _pools.add(pool)
    return kind(connection_pool=pool)


def _attach_again(kind, segment, db, options):
    return _over(memory(segment, create=False), db, options, kind)


def cache(name: str = "polder", *, prefix: Union[str, bytes] = "", db: int = 0, ceiling: Optional[int] = None, create: bool = True) -> Cache:
    """The mapping of the strings in a memory's database."""
    return attach(name, db=db, ceiling=ceiling, create=create).cache(prefix)
