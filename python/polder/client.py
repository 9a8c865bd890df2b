"""redis-py over an attached memory: a connection class whose requests go nowhere but into this process."""
import os
import threading
import time
from collections import deque

import redis
from redis._parsers import BaseParser
from redis.connection import AbstractConnection

from polder._polder import Caller, Fault, Memory
from polder.cache import Cache

_memories = {}
_lock = threading.Lock()


def memory(name, ceiling=None, create=True):
    """The memory of a name, attached once in a process; a forked child goes on with its parent's."""
    segment = name if ":" in name else f"shm:{name}"
    with _lock:
        known = _memories.get(segment)
        if known is None:
            known = _memories[segment] = Memory(segment, ceiling, create)
        return known


def _renew_lock():
    # A thread of the parent may have held it.
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)

# How long a caller rests before Python looks for signals.
_NAP = 0.1


def _run(caller, words):
    """The replies to a call, however long it waits."""
    replies = caller.start(words)
    try:
        while replies is None:
            caller.rest(_NAP)
            replies = caller.resume()
    except BaseException:
        caller.cancel()
        raise
    return replies


_parse_error = BaseParser.parse_error


def _error(text):
    return _parse_error(text)


class Connection(AbstractConnection):
    """What redis-py takes for a connection. It belongs to the thread that listens with it, like every caller that listens."""

    def __init__(self, memory=None, **options):
        self._memory = memory
        self._caller = None
        self._replies = deque()
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
        protocol = int(self.protocol or 2)
        caller = Caller(self._memory, protocol, _error)
        self._caller = caller
        if self.db:
            self._expect(_run(caller, [b"SELECT", str(self.db).encode()]))
        if self.client_name:
            self._expect(_run(caller, [b"CLIENT", b"SETNAME", self.encoder.encode(self.client_name)]))
        for reference in self._connect_callbacks:
            callback = reference()
            if callback:
                callback(self)

    @staticmethod
    def _expect(replies):
        if isinstance(replies[0], Exception):
            raise replies[0]

    def disconnect(self, *args):
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
            for words in command:
                self._replies.extend(_run(self._caller, words))
                if words[0].upper() == b"QUIT":
                    # The next call connects again.
                    self._caller = None
                    break
        except Fault as fault:
            raise redis.ConnectionError(str(fault)) from fault

    def send_command(self, *args, **kwargs):
        self.send_packed_command(self.pack_command(*args))

    def can_read(self, timeout=0):
        if self._caller is None:
            self.connect()
        until = time.monotonic() + (timeout or 0)
        while not self._replies:
            self._replies.extend(self._caller.hear())
            left = until - time.monotonic()
            if self._replies or left <= 0:
                break
            self._caller.rest(min(left, _NAP))
        return bool(self._replies)

    def read_response(self, disable_decoding=False, *, disconnect_on_error=True, push_request=False, **_):
        while not self._replies:
            if self._caller is None:
                raise redis.ConnectionError("nothing has been asked of this connection")
            self.can_read(3600.0)
        reply = self._replies.popleft()
        if isinstance(reply, redis.ResponseError):
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


class Polder(redis.Redis):
    """redis-py's client on an attached memory; see ``attach``."""

    @property
    def memory(self):
        """The memory itself, for the shortest ways in."""
        return self.connection_pool.connection_kwargs["memory"]

    def cache(self, prefix=""):
        """The mapping of the strings in this database."""
        return Cache(self.memory, self, prefix, self.connection_pool.connection_kwargs.get("db", 0))


def attach(name="polder", *, db=0, ceiling=None, create=True, **options):
    """redis-py's client on the memory of a name: ``shm:NAME`` (or just NAME), ``sysv:NAME`` or ``file:PATH``.

    ``ceiling`` is the most bytes it may grow to, where it is made. ``options`` are those of a redis-py connection: ``decode_responses``,
    ``encoding``, ``protocol``, ``client_name`` ...
    """
    pool = redis.ConnectionPool(connection_class=Connection, memory=memory(name, ceiling, create), db=db, **options)
    return Polder(connection_pool=pool)


def cache(name="polder", *, prefix="", db=0, ceiling=None, create=True):
    """The mapping of the strings in a memory's database."""
    return attach(name, db=db, ceiling=ceiling, create=create).cache(prefix)
