"""Clients of any Redis, Valkey or Polder server: one connection for all threads, or for all tasks of an event loop.

``connect(url)`` gives an object with redis-py's methods, arguments and reply types. Its connection is Rust's ``polder-client``: it is shared by all
threads, connects again by itself, and gives calls that wait in the server (BLPOP and its like) a connection of their own.
"""
import atexit
import contextlib
import functools
import math
import os
import select
import time
import weakref
from typing import Any, Iterable, Optional
from urllib.parse import parse_qs, unquote, urlsplit

import redis
from redis._parsers import BaseParser, Encoder
from redis.client import EMPTY_RESPONSE, NEVER_DECODE
from redis.commands import CoreCommands

from polder._polder import NAMES, Error, Remote, FastCommand
from polder.client import _SHORT, attach


class NotSent(Error, redis.ConnectionError):
    """The server has not seen the call: it may be made again."""


class OutcomeUnknown(Error, redis.ConnectionError):
    """The call was written, and the connection broke before its reply: read back first."""


class TimedOut(Error, redis.TimeoutError):
    """The deadline passed; the text says at which stage the call was, and why."""


class Usage(Error, redis.DataError):
    """The call cannot be made this way; the text names the way."""


class Unmet(Error, redis.WatchError):
    """Nothing ran: the ``conditions`` of a pipeline that are here did not hold."""

    def __init__(self, conditions):
        super().__init__("nothing ran, since these conditions do not hold: " + ", ".join(map(repr, conditions)))
        self.conditions = conditions


class Contended(Error, redis.WatchError):
    """Nothing ran: others changed the keys of a pipeline's conditions each time. It may be made again."""


class Condition:
    """What must hold of a key for a pipeline to run: ``r.pipeline(conditions=[polder.Condition.key_absent("lock")])``."""

    def __init__(self, kind: str, *words: Any):
        self.kind, self.words = kind, words

    @classmethod
    def key_exists(cls, key: Any) -> "Condition":
        return cls("exists", key)

    @classmethod
    def key_absent(cls, key: Any) -> "Condition":
        return cls("absent", key)

    @classmethod
    def value_equals(cls, key: Any, value: Any) -> "Condition":
        """The key holds a string of just this value."""
        return cls("equals", key, value)

    @classmethod
    def value_differs(cls, key: Any, value: Any) -> "Condition":
        """The key is absent, or holds a string of another value."""
        return cls("differs", key, value)

    @classmethod
    def field_exists(cls, key: Any, field: Any) -> "Condition":
        return cls("field exists", key, field)

    @classmethod
    def field_equals(cls, key: Any, field: Any, value: Any) -> "Condition":
        return cls("field equals", key, field, value)

    @classmethod
    def member_exists(cls, key: Any, member: Any) -> "Condition":
        """The set has the member."""
        return cls("member exists", key, member)

    @classmethod
    def length_equals(cls, key: Any, length: int) -> "Condition":
        """The list has this many elements."""
        return cls("length", key, length)

    def __repr__(self):
        return f"{self.kind}({', '.join(map(repr, self.words))})"


_KINDS = {"not sent": NotSent, "outcome unknown": OutcomeUnknown, "timed out": TimedOut, "usage": Usage}


@functools.lru_cache(maxsize=None)
def _refusal(kind):
    """redis-py's class of a server's error, as one of Polder's errors, too."""

    def reduce(error):
        return _refused, (kind, error.args)

    return type(kind.__name__, (Error, kind), {"__module__": __name__, "__reduce__": reduce})


def _refused(kind, args):
    return _refusal(kind)(*args)


def _error(kind, text):
    if kind in _KINDS:
        return _KINDS[kind](text)
    known = BaseParser.parse_error(text)
    known.__class__ = _refusal(type(known))
    return known


# Clients and subscriptions: a forked child has none of their threads.
_rooted = weakref.WeakSet()


def _renew():
    for rooted in list(_rooted):
        rooted._forget()


def _settle():
    for rooted in list(_rooted):
        rooted._settle()


os.register_at_fork(after_in_child=_renew)
atexit.register(_settle)


def _callbacks():
    """What redis-py makes of replies in RESP3, which Polder's client asks for."""
    return redis.Redis(protocol=3).response_callbacks


def _words(args):
    # As redis-py: a first word with blanks is several words ("CLIENT LIST").
    name = args[0]
    if isinstance(name, str) and " " in name:
        return (*name.split(), *args[1:])
    return args


def shaped(callback, options):
    """A reply's callback with the options of its call; None if there is none."""
    if callback is None or not options:
        return callback
    return functools.partial(callback, **options)


def segment_of(url):
    """The segment of a URL of shared memory, and its options; None for a server's URL."""
    if not url.startswith("polder:"):
        return None
    address, _, query = url.partition("?")
    given = {name: values[-1] for name, values in parse_qs(query).items()}
    unknown = set(given) - {"db", "create"}
    if unknown:
        raise Usage(f"the URL's option '{min(unknown)}' is not for shared memory; there are db and create")
    name = unquote(address[len("polder:"):].removeprefix("//"))
    return name, int(given.get("db", 0)), given.get("create") == "yes"


class Base:
    """What clients with and without an event loop have in common."""

    _EVENT_LOOP = False

    def __init__(self, url: str, *, decode_responses: bool = False):
        self._url, self._decode = url, decode_responses
        self._encoder = Encoder("utf-8", "strict", decode_responses)
        self.response_callbacks = _callbacks()
        self._core: Optional[Remote] = None
        self._has_fired = False
        self._root, self._view = None, (None, False)
        self._views = weakref.WeakSet()
        _rooted.add(self)
        self._remote()

    def db(self, number: int):
        """A client of another database over the same connection. It is closed with this one."""
        return self._viewed(number, self._view[1])

    def cached(self):
        """A client over the same connection that keeps replies of calls that only read one key, until the server says that the key has changed.
        The URL says how much is kept: ``?cache_bytes_max=64000000``; without it, nothing is."""
        return self._viewed(self._view[0], True)

    def _viewed(self, db, cached):
        view = object.__new__(type(self))
        view.__dict__.update((name, value) for name, value in self.__dict__.items() if name not in _SHORT)
        view._root, view._view, view._core, view._has_fired = self._root or self, (db, cached), None, False
        view._root._views.add(view)
        _rooted.add(view)
        view._remote()
        return view

    def _remote(self):
        """The connection; opened at the first use, and anew in a forked child."""
        core = self._core
        if core is None:
            if self._root is None:
                core = Remote(self._url, self._EVENT_LOOP, _error, self._encoder.encode, self._decode)
            else:
                core = self._root._remote().view(*self._view)
            self._core = core
            self._open_short(core)
        return core

    def _open_short(self, core):
        own = weakref.ref(self)
        # What a subclass sees all calls by, it is to see them by.
        hidden = _SHORT.items() if type(self).__module__ in ("polder.remote", "polder.aio") else ()
        for name, (command, least, most, *rest) in hidden:
            callback = dict.get(self.response_callbacks, command)
            self.__dict__[name] = FastCommand(core, command.encode(), least, most, rest, callback, own, name)

    def _forget(self):
        """Leaves the connection as it is: the next call opens another one."""
        self._core, self._has_fired = None, False
        for name in _SHORT:
            self.__dict__.pop(name, None)
        if self._root is None:
            for view in list(self._views):
                view._forget()

    def set_response_callback(self, command, callback):
        self.response_callbacks[command] = callback
        if self._core is not None:
            self._open_short(self._core)

    def get_encoder(self):
        return self._encoder

    def fire(self, *args: Any) -> None:
        """Makes a call and forgets it: nothing is kept for its reply."""
        self._remote().fire(_words(args))
        self._has_fired = True

    def _barrier(self):
        """The connection, if calls were fired over it: a reply to a call tells that the server has seen them. A client without deadlines, which
        might wait for ever, has none."""
        has_fired, self._has_fired = self._has_fired, False
        has_deadline = parse_qs(urlsplit(self._url).query).get("timeout_ms") != ["0"]
        return self._core if has_fired and has_deadline else None

    def _settle(self):
        core = self._barrier()
        if core is not None:
            with contextlib.suppress(Error):
                core.run(("PING",))
        if self._root is None:
            for view in list(self._views):
                view._settle()

    def stats(self):
        """Figures of the connection: calls, refused, timed_out, queued, connections, cache_hits, cache_misses."""
        return self._remote().stats()

    def __getattr__(self, name):
        words = None if name.startswith("_") else NAMES.get(name)
        if words is None:
            raise AttributeError(f"there is no command {name}")
        return functools.partial(self.execute_command, *words)

    def __repr__(self):
        parts = urlsplit(self._url)
        return f"<{type(self).__module__}.{type(self).__name__} of {parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}>"

    def __reduce__(self):
        if self._root is not None:
            return _view_again, (self._root, self._view)
        return functools.partial(type(self), decode_responses=self._decode), (self._url,)

    @staticmethod
    def _plan(args, options, callbacks):
        """The words of a call, what makes its result of the reply, and whether the reply is never decoded."""
        never_decode = options.pop(NEVER_DECODE, None) is not None
        empty = options.pop(EMPTY_RESPONSE, None)
        options.pop("keys", None)
        return _words(args), shaped(callbacks.get(args[0]), options), False if never_decode else None, empty


def _view_again(root, view):
    return root._viewed(*view)


class Client(Base, CoreCommands):
    """redis-py's methods over one connection for all threads; see ``connect``."""

    def execute_command(self, *args, **options):
        words, callback, decode, empty = self._plan(args, options, self.response_callbacks)
        try:
            reply = self._remote().run(words, decode)
        except redis.ResponseError:
            if empty is not None:
                return empty
            raise
        return reply if callback is None else callback(reply)

    def pipeline(self, transaction: bool = True, shard_hint: Any = None, *, conditions: Iterable[Condition] = ()) -> "Pipeline":
        """Calls that are sent together; with ``transaction`` they run as one (MULTI and EXEC). With ``conditions`` they run as one if all of these
        hold; else ``execute`` raises ``Unmet``."""
        return Pipeline(self, transaction, conditions)

    def pubsub(self, ignore_subscribe_messages: bool = False) -> "PubSub":
        return PubSub(self, ignore_subscribe_messages)

    def lock(self, name, timeout=None, sleep=0.1, blocking=True, blocking_timeout=None, thread_local=True):
        return redis.lock.Lock(
            self, name, timeout=timeout, sleep=sleep, blocking=blocking, blocking_timeout=blocking_timeout, thread_local=thread_local
        )

    def close(self) -> None:
        """Closes the connection, once the server has seen what was fired. The next call opens another one."""
        self._settle()
        self._forget()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Pipeline(CoreCommands):
    """Calls that are kept until ``execute`` sends them together."""

    _WATCH = "a client whose connection all threads share cannot watch keys by WATCH: make the pipeline with conditions, or let a script look and change"

    def __init__(self, client, transaction=True, conditions=()):
        self._client, self._transaction, self._conditions = client, transaction, list(conditions)
        self.response_callbacks = client.response_callbacks
        self.command_stack = []

    def __len__(self):
        return len(self.command_stack)

    def __bool__(self):
        return True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.reset()

    def reset(self):
        self.command_stack = []

    def get_encoder(self):
        return self._client.get_encoder()

    def execute_command(self, *args, **options):
        words, callback, _, _ = Base._plan(args, options, self.response_callbacks)
        self.command_stack.append((words, callback))
        return self

    def multi(self):
        self._transaction = True

    def watch(self, *_):
        raise Usage(self._WATCH)

    unwatch = watch

    def execute(self, raise_on_error: bool = True):
        """Sends the calls: a list of their results, or the first error of one of them. Without ``raise_on_error``, errors stand in the list."""
        calls, self.command_stack = self.command_stack, []
        if not calls:
            return []
        if self._conditions:
            replies = self._judged(self._client._remote().run_if(self._encoded_conditions(), [words for words, _ in calls]))
        else:
            replies = self._client._remote().run_group([words for words, _ in calls], self._transaction)
        return self._results(calls, raise_on_error, replies)

    def _encoded_conditions(self):
        encode = self.get_encoder().encode
        return [(condition.kind, [bytes(encode(word)) for word in condition.words]) for condition in self._conditions]

    def _judged(self, outcome):
        """The replies of calls with conditions, of the outcome that ``run_if`` describes."""
        if outcome is None:
            raise Contended("nothing ran: others changed the keys of the conditions each time; make it again")
        replies, *unmet = outcome
        if unmet:
            raise Unmet([self._conditions[number] for number in unmet[0]])
        return replies

    @staticmethod
    def _results(calls, raise_on_error, replies):
        results = []
        for number, ((words, callback), reply) in enumerate(zip(calls, replies), 1):
            if isinstance(reply, redis.RedisError):
                if raise_on_error:
                    reply.args = (f"Command # {number} ({words[0]}) of pipeline caused error: {reply}",)
                    raise reply
                results.append(reply)
            else:
                results.append(reply if callback is None else callback(reply))
        return results


class Subscribing:
    """What subscriptions with and without an event loop have in common. Each call of ``subscribe`` hears by itself; all are given out together."""

    def __init__(self, client, ignore_subscribe_messages=False):
        self._client, self._ignores = client, ignore_subscribe_messages
        self._feeds = []
        _rooted.add(self)

    def _forget(self):
        self._feeds = []

    def _settle(self):
        """Subscriptions send nothing that is to be waited for."""

    def _shut(self):
        feeds, self._feeds = self._feeds, []
        for feed, _, _ in feeds:
            feed.close()

    def _add(self, kind, names, handlers):
        if handlers:
            raise Usage("handlers by keyword are not supported: look at the message's channel")
        names = list(names)
        feed = self._client._remote().subscribe(kind, names)
        self._feeds.append((feed, kind, names))

    def subscribe(self, *channels, **handlers):
        self._add("channel", channels, handlers)

    def psubscribe(self, *patterns, **handlers):
        self._add("pattern", patterns, handlers)

    def ssubscribe(self, *channels, **handlers):
        self._add("shard", channels, handlers)

    def unsubscribe(self, *_):
        """Ends all subscriptions to channels."""
        self._end("channel")

    def punsubscribe(self, *_):
        """Ends all subscriptions to patterns."""
        self._end("pattern")

    def sunsubscribe(self, *_):
        """Ends all subscriptions to shard channels."""
        self._end("shard")

    def _end(self, ended):
        for feed, kind, _ in self._feeds:
            if kind == ended:
                feed.close()
        self._feeds = [known for known in self._feeds if known[1] != ended]

    @property
    def subscribed(self):
        return bool(self._feeds)

    def _text(self, value):
        return value.decode() if self._client._decode and isinstance(value, bytes) else value

    def _message(self, event, kind, names):
        """A message as redis-py has it; None for what is not to be seen."""
        what, pattern, channel, data = event
        if what == "refused":
            raise _error("refused", data.decode())
        if what == "message":
            kind = {"channel": "message", "pattern": "pmessage", "shard": "smessage"}[kind]
            return {"type": kind, "pattern": self._text(pattern), "channel": self._text(channel), "data": self._text(data)}
        if what == "missed":
            # redis-py has no word for a gap.
            return {"type": "missed", "pattern": None, "channel": None, "data": None}
        if self._ignores:
            return None
        word = {"channel": "subscribe", "pattern": "psubscribe", "shard": "ssubscribe"}[kind]
        name = names[0] if self._client._decode else self._client.get_encoder().encode(names[0])
        return {"type": word, "pattern": None, "channel": name, "data": len(names)}

    def _next(self):
        """A message that has come, and whether one has."""
        for feed, kind, names in self._feeds:
            event = feed.hear()
            if event is not None:
                return self._message(event, kind, names), True
        return None, False

    def _check(self):
        if not self._feeds:
            raise Usage("nothing is subscribed to; call subscribe, psubscribe or ssubscribe first")


def _seen(message, ignores):
    return None if ignores and message is not None and message["type"].endswith("subscribe") else message


def _left(until):
    return None if until is None else max(until - time.monotonic(), 0)


class PubSub(Subscribing):
    """Subscriptions of one client: ``subscribe``, then ``get_message`` or ``listen``, as in redis-py."""

    def get_message(self, ignore_subscribe_messages: bool = False, timeout: Optional[float] = 0.0):
        """The next message, or None after so many seconds; ``timeout=None`` waits for ever."""
        self._check()
        until = None if timeout is None else time.monotonic() + timeout
        while self._feeds:
            message, heard = self._next()
            left = _left(until)
            if heard or left == 0:
                return _seen(message, ignore_subscribe_messages)
            self._readable(left)
        return None

    def _readable(self, seconds):
        """Waits until a feed may have something, or for so many seconds."""
        feeds, poll = list(self._feeds), select.poll()
        for feed, _, _ in feeds:
            poll.register(feed.fileno(), select.POLLIN)
        poll.poll(None if seconds is None else math.ceil(seconds * 1000))

    def listen(self):
        while self._feeds:
            message = self.get_message(timeout=None)
            if message is not None:
                yield message

    def close(self):
        self._shut()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def connect(url: str = "redis://127.0.0.1:6379", *, decode_responses: bool = False):
    """A client of a server, or of a memory, with redis-py's methods and reply types::

        r = polder.connect("redis://127.0.0.1:6379/0")
        r.set("k", "v", ex=60)

    URLs are those of the Rust client (docs/client.md): ``redis://``, ``rediss://``, ``redis-sentinel://``, ``redis-cluster://``, ``unix:`` with
    options behind ``?``; and ``polder://shm:NAME``, which is ``polder.attach(NAME)``.
    """
    memory = segment_of(url)
    if memory is not None:
        name, db, create = memory
        return attach(name, db=db, create=create, decode_responses=decode_responses)
    return Client(url, decode_responses=decode_responses)
