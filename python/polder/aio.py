"""redis-py's asyncio client over an attached memory: calls that wait and subscriptions wait in the event loop, by a descriptor that it polls::

    r = polder.aio.attach("app")
    await r.blpop("jobs")
"""
import asyncio
import math
import os
import time
from collections import deque
from typing import Any, Optional

import redis
import redis.asyncio
from redis.asyncio.connection import AbstractConnection

from polder._polder import Ended, Fault
from polder.client import Connection as _Sync
from polder.client import told, memory


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
                # Now and then by itself, for chores and for letters that could not ring.
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
    """redis-py's asyncio client on an attached memory; see ``attach``."""

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
