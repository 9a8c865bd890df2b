"""redis-py's asyncio client over an attached memory: calls that wait and subscriptions wait in the event loop, by a descriptor that it polls::

    r = polder.aio.attach("app")
    await r.blpop("jobs")

And a client of any server, one connection for all tasks, whose futures the loop completes many at a time::

    r = polder.aio.connect("redis://127.0.0.1:6379")
    await asyncio.gather(*(r.incr("n") for _ in range(1000)))
"""
import asyncio
import contextlib
import math
import os
import time
import weakref
from collections import deque
from typing import Any, Iterable, Optional

import redis
import redis.asyncio
from redis.asyncio.connection import AbstractConnection
from redis.commands import AsyncCoreCommands

from polder._polder import Ended, Error, Fault, FastCommand
from polder.client import Connection as _Sync
from polder.client import _SHORT, memory, told
from polder.remote import Base, Condition, Pipeline, Subscribing, _left, _seen, segment_of


class Connection(AbstractConnection):
    """What redis-py's asyncio client takes for a connection. It belongs to the thread of its event loop."""

    def __init__(self, memory=None, **options):
        self._memory = memory
        self._caller = None
        self._descriptor = None
        self._replies = deque()
        # Packed calls that wait behind one that waits for a key.
        self._behind = deque()
        self._waits = False
        # As for the client without an event loop: redis-py's own default is meant for a network.
        options.setdefault("socket_timeout", None)
        super().__init__(**options)

    def __del__(self, *_):
        self._forget()

    def repr_pieces(self):
        return [("db", self.db)]

    def _host_error(self):
        return "memory"

    async def _connect(self):
        return None

    @property
    def is_connected(self):
        return self._caller is not None

    async def connect(self):
        if self._caller is not None:
            return
        self._caller = self._introduced()
        self._descriptor = self._caller.fileno()
        for reference in self._connect_callbacks:
            callback = reference()
            if callback:
                done = callback(self)
                if asyncio.iscoroutine(done):
                    await done

    def _forget(self):
        descriptor, self._descriptor, self._caller = self._descriptor, None, None
        if descriptor is not None:
            os.close(descriptor)
        self._replies.clear()
        self._behind.clear()
        self._waits = False

    async def disconnect(self, nowait=False, **_):
        self._forget()

    async def check_health(self):
        pass

    _introduced = _Sync._introduced
    _greeting = _Sync._greeting
    plain_caller = _Sync.plain_caller
    pack_command = _Sync.pack_command
    pack_commands = _Sync.pack_commands
    _decoded = _Sync._decoded

    async def send_packed_command(self, command, check_health=True):
        if self._caller is None:
            await self.connect()
        self._behind.extend(command)
        self._advance()

    async def send_command(self, *args, **kwargs):
        await self.send_packed_command(self.pack_command(*args))

    def _advance(self):
        """Runs what can be run."""
        try:
            waits = self._waits
            while waits or self._behind:
                answered = self._caller.resume() if waits else self._caller.start(self._behind.popleft())
                self._waits = waits = answered is None
                if waits:
                    return
                self._replies.extend(answered)
        except (Ended, Fault) as failure:
            self._forget()
            raise redis.ConnectionError(str(failure)) from failure

    def _look(self):
        if self._waits:
            self._advance()
        else:
            with told():
                self._replies.extend(self._caller.hear())
        return bool(self._replies)

    async def _wait(self, seconds):
        """Waits for a reply or a message; says whether there is one."""
        loop = asyncio.get_running_loop()
        until = None if seconds is None else time.monotonic() + seconds
        while not self._replies and not self._look():
            left = None if until is None else until - time.monotonic()
            due_ms = self._caller.until_ms()
            if due_ms is not None:
                own = max(due_ms / 1000 - time.time(), 0.001)
                left = own if left is None else min(left, own)
            if left is not None and left <= 0:
                return False
            ring = loop.create_future()
            loop.add_reader(self._descriptor, lambda ring=ring: ring.done() or ring.set_result(None))
            try:
                # Now and then by itself, for maintenance and for messages that could not wake it.
                await asyncio.wait([ring], timeout=1.0 if left is None else min(left, 1.0))
            finally:
                if self._descriptor is not None:
                    loop.remove_reader(self._descriptor)
            if self._caller is None:
                raise redis.ConnectionError("the connection has been closed")
        return True

    async def can_read(self):
        return bool(self._replies) or self._look()

    # The name of the same before redis-py 8.
    can_read_destructive = can_read

    async def read_response(self, disable_decoding=False, timeout=None, *, disconnect_on_error=True, push_request=False, **_):
        if self._caller is None:
            await self.connect()
        patience = self.socket_timeout if timeout is None else None if timeout == math.inf else timeout
        try:
            if not await self._wait(patience):
                if timeout is not None:
                    return None
                raise redis.TimeoutError("Timeout reading from memory")
        except BaseException:
            # As redis-py: a call and its reply go together, or the connection ends.
            if disconnect_on_error:
                self._cancel()
            raise
        reply = self._replies.popleft()
        if isinstance(reply, redis.RedisError):
            raise reply
        if not disable_decoding and self.encoder.decode_responses:
            return self._decoded(reply)
        return reply

    def _cancel(self):
        if self._caller is not None and self._waits:
            self._caller.cancel()
        self._forget()


class Polder(redis.asyncio.Redis):
    """redis-py's asyncio client on an attached memory; see ``attach``.

    The calls in ``_SHORT`` never wait: they run when they are made, and what they return is awaited without asking the event loop.
    """

    _is_open = False

    def execute_command(self, *args, **options):
        if not self._is_open:
            self._is_open = True
            self._open_short()
        return super().execute_command(*args, **options)

    def _open_short(self):
        pool = self.connection_pool
        encoder = pool.get_encoder()
        if type(self) is not Polder or encoder.encoding.lower() not in ("utf-8", "utf8") or encoder.encoding_errors != "strict":
            return
        with told():
            caller = pool.connection_class(**pool.connection_kwargs).plain_caller()
        own = weakref.ref(self)
        for name, (command, least, most, *rest) in _SHORT.items():
            callback = dict.get(self.response_callbacks, command)
            self.__dict__[name] = FastCommand(caller, command.encode(), least, most, rest, callback, own, name, True)

    def set_response_callback(self, command, callback):
        super().set_response_callback(command, callback)
        self._is_open = False
        for name in _SHORT:
            self.__dict__.pop(name, None)

    def __reduce__(self):
        if not hasattr(self, "_again"):
            raise TypeError("only a client that polder.aio.attach has made can be pickled; attach in the other process")
        return _attach_again, self._again


def _attach_again(segment, db, options):
    return attach(segment, db=db, create=False, **options)


def attach(
    name: str = "polder", *, db: int = 0, ceiling: Optional[int] = None, create: bool = True, owner: str = "", **options: Any
) -> Polder:
    """redis-py's asyncio client on the memory of a name; as ``polder.attach``."""
    attached = memory(name, ceiling, create, owner)
    pool = redis.asyncio.ConnectionPool(connection_class=Connection, memory=attached, db=db, **options)
    client = Polder.from_pool(pool)
    client._again = (attached.segment, db, options)
    return client


class Client(Base, AsyncCoreCommands):
    """redis-py's asyncio methods over one connection for all tasks of an event loop; see ``connect``."""

    _EVENT_LOOP = True

    def execute_command(self, *args, **options):
        words, callback, decode, empty = self._plan(args, options, self.response_callbacks)
        called = self._remote().submit(words, callback, decode)
        return called if empty is None else _or_else(called, empty)

    def pipeline(self, transaction: bool = True, shard_hint: Any = None, *, conditions: Iterable[Condition] = ()) -> "AsyncPipeline":
        """Calls that are sent together; with ``transaction`` they run as one (MULTI and EXEC). With ``conditions`` they run as one if all of these
        hold; else ``execute`` raises ``Unmet``."""
        return AsyncPipeline(self, transaction, conditions)

    def pubsub(self, ignore_subscribe_messages: bool = False) -> "AsyncPubSub":
        return AsyncPubSub(self, ignore_subscribe_messages)

    def lock(self, name, timeout=None, sleep=0.1, blocking=True, blocking_timeout=None, thread_local=True):
        return redis.asyncio.lock.Lock(
            self, name, timeout=timeout, sleep=sleep, blocking=blocking, blocking_timeout=blocking_timeout, thread_local=thread_local
        )

    async def aclose(self) -> None:
        """Closes the connection, once the server has seen what was fired; calls in flight fail. The next call opens another one."""
        fired = self._barrier()
        if fired is not None:
            with contextlib.suppress(Error):
                await fired.submit(("PING",))
        for view in list(self._views) if self._root is None else []:
            await view.aclose()
        core = self._core
        self._forget()
        if core is not None and self._root is None:
            core.close()

    def __del__(self):
        # The event loop holds the connection for the calls in flight.
        core = self.__dict__.get("_core")
        if core is not None and self.__dict__.get("_root") is None:
            core.retire()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.aclose()


async def _or_else(called, empty):
    try:
        return await called
    except redis.ResponseError:
        return empty


class AsyncPipeline(Pipeline):
    """As a pipeline without an event loop; ``execute`` is awaited."""

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        self.reset()

    async def execute(self, raise_on_error: bool = True):
        calls, self.command_stack = self.command_stack, []
        if not calls:
            return []
        if self._conditions:
            submitted = self._client._remote().submit_if(self._encoded_conditions(), [words for words, _ in calls])
            replies = self._judged(await submitted)
        else:
            replies = await self._client._remote().submit_group([words for words, _ in calls], self._transaction)
        return self._results(calls, raise_on_error, replies)


class AsyncPubSub(Subscribing):
    """Subscriptions of one client, heard by its event loop."""

    async def subscribe(self, *channels, **handlers):
        self._add("channel", channels, handlers)

    async def psubscribe(self, *patterns, **handlers):
        self._add("pattern", patterns, handlers)

    async def ssubscribe(self, *channels, **handlers):
        self._add("shard", channels, handlers)

    async def unsubscribe(self, *_):
        self._end("channel")

    async def punsubscribe(self, *_):
        self._end("pattern")

    async def sunsubscribe(self, *_):
        self._end("shard")

    async def get_message(self, ignore_subscribe_messages: bool = False, timeout: Optional[float] = 0.0):
        """The next message, or None after so many seconds; ``timeout=None`` waits for ever."""
        self._check()
        until = None if timeout is None else time.monotonic() + timeout
        while self._feeds:
            message, heard = self._next()
            left = _left(until)
            if heard or left == 0:
                return _seen(message, ignore_subscribe_messages)
            await self._readable(left)
        return None

    async def _readable(self, seconds):
        """Waits until a feed may have something, or for so many seconds."""
        loop = asyncio.get_running_loop()
        ring = loop.create_future()
        # Held meanwhile, so that their descriptors stay theirs.
        feeds = list(self._feeds)
        for feed, _, _ in feeds:
            loop.add_reader(feed.fileno(), lambda: ring.done() or ring.set_result(None))
        try:
            await asyncio.wait([ring], timeout=seconds)
        finally:
            for feed, _, _ in feeds:
                loop.remove_reader(feed.fileno())

    async def listen(self):
        while self._feeds:
            message = await self.get_message(timeout=None)
            if message is not None:
                yield message

    async def aclose(self):
        self._shut()


def connect(url: str = "redis://127.0.0.1:6379", *, decode_responses: bool = False):
    """A client of a server, or of a memory (``polder://shm:NAME``), for an event loop; as ``polder.connect``."""
    known = segment_of(url)
    if known is not None:
        name, db, create = known
        return attach(name, db=db, create=create, decode_responses=decode_responses)
    return Client(url, decode_responses=decode_responses)
