"""What the Python door promises. Run by python/test.sh, with the wheel installed."""
import asyncio
import concurrent.futures
import datetime
import multiprocessing
import os
import pickle
import sys
import threading
import time

import redis

import polder
import scene
from polder._polder import Caller

SEGMENT = scene.segment("door")
REDIS_PY = int(redis.__version__.split(".")[0])


def computed(name, results):
    """Asks for one slow result, in a process of its own."""
    cache = polder.cache(name)

    @cache.memoize(ttl=60, name="slow", patience=20)
    def slow(argument):
        cache.add("computed")
        time.sleep(0.3)
        return argument * 2

    results.put(slow(21))


def limited(name, results):
    """A rate limiter that all workers share: at most 50 in a window."""
    r = polder.attach(name)
    passed = 0
    for _ in range(40):
        with r.pipeline() as pipe:
            pipe.incr("window")
            pipe.expire("window", 60, nx=True)
            count, _ = pipe.execute()
        passed += count <= 50
    results.put(passed)


def read_there(handle):
    """In another process: what its handle finds."""
    return handle.get("k")


class Unhidden(polder.Polder):
    """A client whose methods are all its class's."""

    def execute_command(self, *args, **options):
        return super().execute_command(*args, **options)


def waiter(name, results):
    results.put(polder.attach(name).blpop("q", timeout=20))


class Door(scene.Scene):
    SEGMENT = SEGMENT

    def test_redis_py_examples(self):
        r = self.r
        self.assertIs(r.set("foo", "bar"), True)
        self.assertEqual(r.get("foo"), b"bar")
        self.assertEqual(r.hset("user", mapping={"name": "Ann", "age": 29}), 2)
        self.assertEqual(r.hgetall("user"), {b"name": b"Ann", b"age": b"29"})
        self.assertEqual(r.zadd("z", {"a": 1, "b": 2.5}), 2)
        self.assertEqual(r.zrange("z", 0, -1, withscores=True), [(b"a", 1.0), (b"b", 2.5)])
        self.assertEqual(r.lpush("l", *range(5)), 5)
        self.assertEqual(r.lrange("l", 0, 1), [b"4", b"3"])
        self.assertEqual(r.sadd("s", "x", "y"), 2)
        self.assertEqual(r.smembers("s"), {b"x", b"y"})
        entry = r.xadd("x", {"f": "v"})
        self.assertEqual(r.xrange("x"), [(entry, {b"f": b"v"})])
        self.assertEqual(r.info("server")["redis_mode"], "standalone")
        self.assertEqual(r.eval("return {KEYS[1], ARGV[1]}", 1, "k", "a"), [b"k", b"a"])
        self.assertIs(r.ping(), True)
        self.assertEqual(sorted(r.scan_iter()), [b"foo", b"l", b"s", b"user", b"x", b"z"])
        with self.assertRaisesRegex(redis.ResponseError, "WRONGTYPE"):
            r.incr("l")
        self.assertEqual(r.client_list()[0]["db"], "0")

    def test_texts_are_decoded_and_protocol_3_has_its_shapes(self):
        r = polder.attach(SEGMENT, decode_responses=True, protocol=3, db=3)
        r.hset("h", "f", "v")
        self.assertEqual(r.hgetall("h"), {"f": "v"})
        r.zadd("z", {"a": 1.5})
        self.assertEqual(r.zscore("z", "a"), 1.5)
        self.assertEqual(self.r.exists("h"), 0)

    def test_short_ways_answer_as_the_methods_that_they_hide(self):
        calls = [
            ("set", "a", "1"), ("get", "a"), ("get", b"none"), ("set", "a", 2.5, ("nx", True)), ("set", "b", "x", ("ex", 100)), ("ttl", "b"),
            ("set", "b", "y", ("xx", True), ("px", 5000)), ("set", "b", "z", ("keepttl", True)), ("pttl", "c"), ("set", "b", "w", ("get", True)),
            ("set", "b", "v", ("nx", True), ("get", True)), ("set", "b", "u", ("ex", 5), ("px", 5)), ("set", "b", "u", ("ex", "5")), ("set", "b", None),
            ("set", "c", "x", ("ex", 0)), ("set", "c", "x", ("nx", False), ("ex", None)), ("set", "c", "\u20ac"), ("get", "c"), ("set", "c", True),
            ("set", "c"), ("get",), ("get", "a", "b"), ("get", ["a"]), ("set", "n", 10), ("incr", "n"), ("incr", "n", 5), ("incrby", "n", -2), ("decr", "n"),
            ("decrby", "n", 3), ("incr", "c"), ("incr", "n", 2**70), ("append", "n", "0"), ("strlen", "n"), ("getdel", "n"), ("exists", "a", "b", "none"),
            ("delete", "a", "none"), ("exists", "a"), ("expire", "b", 50), ("expire", "none", 50), ("expire", "b", datetime.timedelta(seconds=9)),
            ("expire", "b", 5, ("nx", True)), ("pexpire", "b", 60000), ("setex", "e", 10, "v"), ("hset", "h", "f", "v"), ("hset", "h", "f", None),
            ("hset", "h", ("mapping", {"g": 2})), ("hget", "h", "f"), ("hget", "h", "none"), ("hget", "c", "f"), ("hgetall", "h"), ("hgetall", "none"),
            ("hexists", "h", "f"), ("hexists", "h", "none"), ("hincrby", "h", "n"), ("hincrby", "h", "n", 5), ("hlen", "h"), ("hdel", "h", "f", "none"),
            ("lpush", "l", "a", "b", 3), ("rpush", "l", b"c"), ("lpush", "l"), ("llen", "l"), ("lindex", "l", 0), ("lindex", "l", 99), ("lrange", "l", 0, -1),
            ("lpop", "l"), ("lpop", "l", 2), ("rpop", "l"), ("rpop", "l"), ("sadd", "s", "x", "y"), ("sadd", "s", "x"), ("scard", "s"), ("sismember", "s", "x"),
            ("smembers", "s"), ("smembers", "none"), ("srem", "s", "x"), ("zincrby", "z", 1.5, "m"), ("zscore", "z", "m"), ("zscore", "z", "none"),
            ("zcard", "z"), ("zrem", "z", "m"), ("set", ("name", "d"), ("value", "v")), ("get", ("name", "d")),
        ]
        for options in ({}, {"decode_responses": True}, {"protocol": 3}, {"protocol": 3, "decode_responses": True}):
            short = polder.attach(SEGMENT, db=5, **options)
            short.ping()
            short.get("open the ways")
            self.assertIn("get", vars(short))
            unhidden = Unhidden(connection_pool=short.connection_pool)
            outcomes = []
            for client in (short, unhidden):
                self.r.flushall()
                for name, *args in calls:
                    plain = [arg for arg in args if not isinstance(arg, tuple)]
                    try:
                        outcome = getattr(client, name)(*plain, **dict(arg for arg in args if isinstance(arg, tuple)))
                        outcomes.append((name, args, type(outcome), outcome))
                    except Exception as failure:
                        outcomes.append((name, args, type(failure), str(failure).replace("Unhidden", "Polder")))
            self.assertNotIn("get", vars(unhidden))
            for one, other in zip(outcomes, outcomes[len(calls):]):
                self.assertEqual(one, other, options)
            short.set_response_callback("GET", lambda reply, **_: "called back")
            self.assertEqual((short.get("c"), short.get("c")), ("called back", "called back"))
            short.close()
            self.assertNotIn("get", vars(short))
            self.assertEqual(short.strlen("c"), 3)

    def test_pipelines_transactions_and_watch(self):
        with self.r.pipeline() as pipe:
            self.assertEqual(pipe.set("a", 1).incr("a").get("a").execute(), [True, 2, b"2"])
        with self.r.pipeline(transaction=False) as pipe:
            pipe.set("t", "x").incr("t").get("t")
            replies = pipe.execute(raise_on_error=False)
            self.assertIsInstance(replies[1], redis.ResponseError)
            self.assertEqual(replies[2], b"x")
        with self.r.pipeline() as pipe:
            pipe.watch("a")
            self.r.set("a", 5)
            pipe.multi()
            pipe.set("a", 6)
            self.assertRaises(redis.WatchError, pipe.execute)

    def test_locks_and_scripts(self):
        with self.r.lock("lock", timeout=5):
            self.assertFalse(self.r.lock("lock").acquire(blocking=False))
        script = self.r.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
        self.assertEqual(script(keys=["n"], args=[7]), 7)

    def test_subscriptions(self):
        with self.r.pubsub() as p:
            p.subscribe("c")
            p.psubscribe("n*")
            self.assertEqual([p.get_message(timeout=1)["type"] for _ in range(2)], ["subscribe", "psubscribe"])
            self.assertEqual(self.r.publish("c", "one"), 1)
            self.assertEqual(p.get_message(timeout=1)["data"], b"one")
            self.r.publish("news", "two")
            self.assertEqual(p.get_message(timeout=1)["channel"], b"news")
            self.assertIsNone(p.get_message(timeout=0.01))
        self.assertEqual(self.r.publish("c", "nobody"), 0)

    def test_calls_that_wait_let_other_threads_run(self):
        seen = []
        thread = threading.Thread(target=lambda: seen.append(self.r.blpop("q", timeout=10)))
        thread.start()
        time.sleep(0.05)
        self.r.rpush("q", "x")
        thread.join(10)
        self.assertEqual(seen, [(b"q", b"x")])
        self.assertIsNone(self.r.blpop("q", timeout=0.05))

    def test_a_call_that_waits_heeds_signals(self):
        self.assert_heeds_signals(lambda: self.r.blpop("none", 10))
        self.r.rpush("none", "x")
        self.assertEqual(self.r.llen("none"), 1)

    def test_threads_share_a_client(self):
        def work():
            for _ in range(500):
                self.r.incr("n")

        threads = [threading.Thread(target=work) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        self.assertEqual(self.r.get("n"), b"2000")

    def test_cache_is_a_mapping(self):
        cache = self.r.cache("cache:")
        cache["k"] = b"v"
        self.assertEqual((cache["k"], cache.get("none"), "k" in cache, len(cache)), (b"v", None, True, 1))
        self.assertEqual(self.r.get("cache:k"), b"v")
        cache.set("t", "x", ttl=10)
        self.assertTrue(9 < cache.ttl("t") <= 10)
        self.assertIsNone(cache.ttl("k"))
        cache.set("gone", "x", ttl=0.01)
        time.sleep(0.03)
        self.assertRaises(KeyError, lambda: cache["gone"])
        del cache["k"]
        self.assertRaises(KeyError, cache.__delitem__, "k")
        self.assertEqual(list(cache), [b"t"])
        self.assertEqual((cache.add("n", 5), cache.add("n")), (5, 6))
        self.assertEqual((cache.setdefault("n", b"0"), cache.pop("n"), sorted(cache.keys())), (b"6", b"6", [b"t"]))
        cache.update({"u": b"1", b"w": "2"})
        self.assertEqual(dict(cache.items()), {b"t": b"x", b"u": b"1", b"w": b"2"})
        self.r.rpush("cache:l", 1)
        self.assertRaises(polder.Refused, lambda: cache["l"])
        self.assertRaises(TypeError, cache.__setitem__, "k", 5)

    def test_clear_takes_one_pass_and_nothing_else(self):
        cache = self.r.cache("cache:")
        for number in range(3000):
            cache[f"k{number}"] = b"v"
        for number in range(20_000):
            self.r.memory.set(f"other:{number}", b"v")
        began = time.monotonic()
        cache.clear()
        # It took a pass for each key: minutes.
        self.assertLess(time.monotonic() - began, 20)
        self.assertEqual((len(cache), self.r.dbsize()), (0, 20_000))
        decoding = polder.attach(SEGMENT, decode_responses=True).cache("cache:")
        decoding["\u20ac"] = decoding[b"\xff"] = b"v"
        self.assertEqual(sorted(decoding), ["\u20ac".encode(), b"\xff"])
        decoding.clear()
        self.assertEqual(len(decoding), 0)

    def test_memoize_with_and_without_parentheses(self):
        cache = self.r.cache("cache:")

        @cache.memoize
        def twice(number):
            return number * 2

        @cache.memoize(ttl=60, name="thrice:more")
        def thrice(number):
            return number * 3

        @cache.memoize(name="thrice")
        def other(number):
            return number

        self.assertEqual([twice(1), twice(1), twice(2), thrice(2), other(1)], [2, 2, 4, 6, 1])
        self.assertEqual(twice.cache_info(), (1, 2, None, 2))
        self.assertEqual(other.cache_info().currsize, 1)
        other.cache_clear()
        twice.cache_clear()
        self.assertEqual((twice.cache_info(), thrice.cache_info()), ((0, 0, None, 0), (0, 1, None, 1)))
        self.assertEqual(twice(1), 2)
        self.assertEqual((twice.__name__, twice.__wrapped__(5)), ("twice", 10))
        for wrong in (60, "name"):
            with self.assertRaisesRegex(TypeError, "memoize takes a function"):
                cache.memoize(wrong)

        async def later():
            pass

        with self.assertRaisesRegex(TypeError, "coroutine"):
            cache.memoize(later)

    def test_handles_are_pickled_by_name(self):
        self.r.set("k", "v")
        r = polder.attach(SEGMENT, db=3, decode_responses=True)
        r.set("k", "three")
        again = pickle.loads(pickle.dumps(r))
        self.assertEqual((again.get("k"), type(again), again.memory is r.memory), ("three", polder.Polder, True))
        self.assertEqual(pickle.loads(pickle.dumps(self.r.memory)).get("k"), b"v")
        self.assertEqual(pickle.loads(pickle.dumps(self.r.cache("")))["k"], b"v")
        self.assertEqual(pickle.loads(pickle.dumps(polder.Commands(self.r.memory, db=3, decode=True))).get("k"), "three")

        async def scene():
            there = pickle.loads(pickle.dumps(polder.aio.attach(SEGMENT, db=3)))
            self.assertEqual(await there.get("k"), b"three")
            await there.aclose()

        asyncio.run(scene())
        with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
            self.assertEqual(list(pool.map(read_there, [r, self.r, self.r.cache(""), self.r.memory])), ["three", b"v", b"v", b"v"])
        with self.assertRaisesRegex(TypeError, "caller cannot be pickled"):
            pickle.dumps(Caller(self.r.memory, 2, redis.ResponseError))
        with self.assertRaisesRegex(TypeError, "attach in the other process"):
            pickle.dumps(polder.Polder(connection_pool=redis.ConnectionPool()))

    def test_a_removed_memory_is_not_attached_again(self):
        name = scene.segment("removed")
        try:
            before = polder.memory(name, ceiling=64 << 20)
            before.set("k", "v")
            polder.Memory.remove(name)
            self.assertEqual((before.removed, polder.memory(name, ceiling=64 << 20).get("k")), (True, None))
        finally:
            polder.Memory.remove(name)

    def test_a_signal_ends_an_endless_script_and_undoes_it(self):
        endless = "redis.call('SET', KEYS[1], 'x') while true do end"
        self.assert_heeds_signals(lambda: self.r.eval(endless, 1, "k"))
        self.assert_heeds_signals(lambda: self.r.eval("while redis.call('GET', KEYS[1]) ~= 'x' do end", 1, "k"))
        self.assert_heeds_signals(lambda: polder.Commands(self.r.memory).eval(endless, 1, "k"))
        pipe = self.r.pipeline().set("k", "y").eval(endless, 1, "k")
        self.assert_heeds_signals(pipe.execute)
        self.assertEqual((self.r.exists("k"), self.r.ping()), (0, True))

    def test_what_is_committed_is_followed(self):
        name = scene.segment("changes")
        try:
            memory = polder.memory(name, ceiling=64 << 20)
            r = polder.attach(name)
            changes = memory.changes()
            begin = changes.position
            self.assertEqual(list(changes), [])
            memory.set("k", "v", db=3)
            with r.pipeline() as pipe:
                pipe.rpush("l", "a", "b").incr("n").execute()
            first = next(changes)
            self.assertEqual(first, [(3, [b"SET", b"k", b"v"])])
            behind = changes.position
            both = [(0, [b"RPUSH", b"l", b"a", b"b"]), (0, [b"INCRBY", b"n", b"1"])]
            self.assertEqual((list(changes), list(changes)), ([both], []))
            # Another one goes on where this one was, and more than are read at once come in order.
            r.set("n", 0)
            for _ in range(2500):
                r.incr("n")
            again = memory.changes(behind)
            self.assertEqual(next(again), both)
            self.assertEqual(len(list(again)), 2501)
            self.assertEqual((next(memory.changes(begin)), again.position != behind), (first, True))
            with self.assertRaises(ValueError):
                memory.changes("here")
            self.assertIsNone(memory.follower("search"))
            memory.keep_follower("search", behind)
            self.assertEqual(memory.follower(b"search"), behind)
            [(name_kept, place, lag)] = memory.followers()
            self.assertEqual((name_kept, place, lag > 0), (b"search", behind, True))
            memory.keep_follower("search", again.position)
            self.assertEqual(memory.followers(), [(b"search", again.position, 0)])
            with self.assertRaises(ValueError):
                memory.keep_follower("search", "here")
            self.assertEqual((memory.forget_follower("search"), memory.forget_follower("search")), (True, False))
            memory.stop_changes()
            with self.assertRaisesRegex(polder.Refused, "copy the data, and follow from a new position"):
                memory.changes(behind)
            with self.assertRaises(polder.Refused):
                next(again)
        finally:
            polder.Memory.remove(name)

    def test_errors_have_one_base(self):
        for kind in (polder.Refused, polder.Fault, polder.Ended):
            self.assertTrue(issubclass(kind, polder.Error))
            self.assertEqual(kind.__module__, "polder")
        self.r.rpush("l", 1)
        self.assertRaises(polder.Error, self.r.memory.get, "l")
        self.assertRegex(polder.__version__, r"^\d+\.\d+\.\d+")

    def processes(self, how, work, count):
        context = multiprocessing.get_context(how)
        results = context.Queue()
        started = [context.Process(target=work, args=(SEGMENT, results)) for _ in range(count)]
        [process.start() for process in started]
        return started, results

    def finished(self, started, results):
        seen = [results.get(timeout=60) for _ in started]
        [process.join(60) for process in started]
        self.assertEqual([process.exitcode for process in started], [0] * len(started))
        return seen

    def test_one_process_computes_for_all(self):
        for how in ("fork", "spawn"):
            self.r.flushall()
            self.assertEqual(self.finished(*self.processes(how, computed, 4)), [42] * 4)
            self.assertEqual(self.r.get("computed"), b"1", how)

    def test_workers_share_a_rate_limit(self):
        for how in ("fork", "spawn"):
            self.r.flushall()
            self.assertEqual(sum(self.finished(*self.processes(how, limited, 4))), 50, how)

    def test_a_forked_child_waits_and_its_parent_wakes_it(self):
        with self.r.pubsub() as p:
            p.subscribe("c")
            p.get_message(timeout=1)
            started, results = self.processes("fork", waiter, 1)
            time.sleep(0.1)
            self.r.rpush("q", "x")
            self.assertEqual(self.finished(started, results), [(b"q", b"x")])
            self.assertEqual(self.r.publish("c", "still here"), 1)
            self.assertEqual(p.get_message(timeout=1)["data"], b"still here")

    def test_asyncio(self):
        async def scene():
            r = polder.aio.attach(SEGMENT)
            self.assertTrue(await r.set("a", 1))
            waits = [asyncio.create_task(r.blpop(f"q{n}", timeout=10)) for n in range(3)]
            await asyncio.sleep(0.05)
            await asyncio.gather(*(r.rpush(f"q{n}", n) for n in range(3)))
            self.assertEqual(await asyncio.gather(*waits), [(f"q{n}".encode(), str(n).encode()) for n in range(3)])
            self.assertIsNone(await r.blpop("none", timeout=0.05))
            gone = asyncio.create_task(r.blpop("gone"))
            await asyncio.sleep(0.02)
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)
            self.assertEqual(await r.rpush("gone", "x"), 1)
            self.assertEqual(await r.llen("gone"), 1)
            async with r.pubsub() as p:
                await p.subscribe("c")
                self.assertEqual((await p.get_message(timeout=1))["type"], "subscribe")
                sender = threading.Timer(0.05, self.r.publish, ("c", "hello"))
                sender.start()
                self.assertEqual((await p.get_message(timeout=5))["data"], b"hello")
                self.assertIsNone(await p.get_message(timeout=0.01))
            async with r.pipeline() as pipe:
                self.assertEqual(await pipe.set("b", 2).incr("b").execute(), [True, 3])
            await r.aclose()

        asyncio.run(scene())

    def test_asyncio_calls_are_unblocked_and_ended(self):
        async def blocked(r):
            call = asyncio.create_task(r.blpop("none", timeout=20))
            ids = []
            while not ids:
                await asyncio.sleep(0.005)
                ids = [client["id"] for client in self.r.client_list() if "b" in client["flags"]]
            return call, ids[0]

        async def scene():
            r = polder.aio.attach(SEGMENT)
            call, number = await blocked(r)
            self.assertTrue(self.r.client_unblock(number))
            self.assertIsNone(await call)
            call, number = await blocked(r)
            self.assertTrue(self.r.client_unblock(number, error=True))
            with self.assertRaisesRegex(redis.ResponseError, "UNBLOCKED"):
                await call
            call, number = await blocked(r)
            self.assertEqual(self.r.client_kill_filter(_id=number), 1)
            with self.assertRaisesRegex(redis.ConnectionError, "KILL"):
                await call
            self.assertTrue(await r.ping())
            await r.aclose()

        asyncio.run(scene())

    def test_misuse_is_told(self):
        self.assertRaises(polder.Fault, polder.Memory, "shm:a/b/c")
        self.assertRaises(polder.Fault, polder.Memory, "shm:none-there", create=False)
        for wrong in (5, None, 1.5, ["k"], bytearray(b"k")):
            self.assertRaises(TypeError, self.r.memory.get, wrong)
            self.assertRaises(TypeError, self.r.memory.set, "k", wrong)
        self.assertRaises(OverflowError, self.r.memory.get, "k", 256)
        self.assertRaises(redis.DataError, self.r.set, "k", None)
        self.assertRaises(redis.DataError, self.r.set, "k", True)
        self.assertRaises(UnicodeEncodeError, self.r.get, "\ud800")

    def test_a_subscription_goes_on_in_another_thread(self):
        p = self.r.pubsub(ignore_subscribe_messages=True)
        p.subscribe("c")
        p.get_message(timeout=1)
        seen = []

        def listen():
            # The first look subscribes again: from then on, it hears.
            p.get_message(timeout=0.01)
            listens.set()
            seen.append(p.get_message(timeout=20))

        listens = threading.Event()
        thread = threading.Thread(target=listen)
        thread.start()
        listens.wait(20)
        self.r.publish("c", "there")
        thread.join(20)
        self.assertEqual(seen[0]["data"], b"there")
        p.close()

    def test_run_in_thread(self):
        heard, done = [], threading.Event()

        def handle(message):
            heard.append(message["data"])
            if len(heard) == 3:
                done.set()

        p = self.r.pubsub(ignore_subscribe_messages=True)
        p.subscribe(c=handle)
        p.psubscribe(**{"n*": handle})
        # What has come before is not lost.
        self.r.publish("c", "one")
        thread = p.run_in_thread(sleep_time=0.01)
        deadline = time.monotonic() + 20
        while self.r.pubsub_numsub("c") != [(b"c", 1)] and time.monotonic() < deadline:
            time.sleep(0.005)
        while self.r.pubsub_numpat() != 1 and time.monotonic() < deadline:
            time.sleep(0.005)
        self.r.publish("c", "two")
        self.r.publish("news", "three")
        self.assertTrue(done.wait(20), heard)
        thread.stop()
        thread.join(20)
        self.assertEqual(heard, [b"one", b"two", b"three"])

    def test_socket_timeout(self):
        r = polder.attach(SEGMENT, socket_timeout=0.05)
        began = time.monotonic()
        self.assertRaises(redis.TimeoutError, r.blpop, "none", 20)
        self.assertLess(time.monotonic() - began, 10)
        self.assertIsNone(r.blpop("none", timeout=0.01))
        self.r.rpush("none", "x")
        self.assertEqual(r.llen("none"), 1)
        with r.pubsub(ignore_subscribe_messages=True) as p:
            p.subscribe("c")
            p.get_message(timeout=0.01)
            if REDIS_PY < 8:
                self.assertRaises(redis.TimeoutError, p.get_message, timeout=None)
            else:
                # A look without a timeout waits for ever there, whatever the connection's timeout is.
                self.assert_heeds_signals(lambda: p.get_message(timeout=None), after=0.3)

    def test_who_is_there_can_be_listed_and_ended(self):
        other = polder.attach(SEGMENT, client_name="other")
        other.client_id()
        names = {client["name"]: client for client in self.r.client_list()}
        self.assertTrue(names["other"]["addr"].startswith(f"pid:{os.getpid()}/"))
        self.assertEqual(self.r.client_kill_filter(_id=names["other"]["id"]), 1)
        # As where a server closes a connection: another one takes its place.
        self.assertGreater(other.client_id(), int(names["other"]["id"]))
        ended = []
        thread = threading.Thread(target=lambda: ended.append(other.blpop("none", timeout=20)))
        thread.start()
        deadline = time.monotonic() + 20
        blocked = []
        while not blocked and time.monotonic() < deadline:
            blocked = [client["id"] for client in self.r.client_list() if "b" in client["flags"]]
        self.assertTrue(self.r.client_unblock(blocked[0]))
        thread.join(20)
        self.assertEqual(ended, [None])

    def test_texts_of_other_encodings(self):
        r = polder.attach(SEGMENT, encoding="latin-1", decode_responses=True)
        r.set("k", "\xe9")
        self.assertEqual(r.get("k"), "\xe9")
        self.assertEqual(self.r.get("k"), b"\xe9")
        r = polder.attach(SEGMENT, decode_responses=True)
        self.assertRaises(UnicodeDecodeError, r.get, "k")
        self.assertIs(r.set("k", "\u20ac", ex=10), True)
        self.assertEqual(r.get("k"), "\u20ac")
        self.assertIsNone(r.set("k", "x", nx=True))
        r.set_response_callback("GET", lambda reply, **_: reply * 2)
        self.assertEqual(r.get("k"), "\u20ac\u20ac")

    def test_each_command_by_its_name(self):
        calls = polder.Commands(self.r.memory, decode=True)
        self.assertEqual(calls.zadd("z", "NX", 1.5, "a", 2, "b"), 2)
        self.assertEqual(calls.zrange("z", 0, -1, "WITHSCORES"), [["a", 1.5], ["b", 2.0]])
        self.assertEqual((calls.hset("h", "f", 1), calls.hgetall("h"), calls.del_("h", "z")), (1, {"f": "1"}, 2))
        self.assertIsNone(calls.blpop("none", 0.01))
        self.assertIn("maxmemory", calls.config_get("maxmemory"))
        self.assertEqual(polder.Commands(self.r.memory, db=3).get("none"), None)
        with self.assertRaisesRegex(redis.ResponseError, "wrong number"):
            calls.get()
        with self.assertRaises(AttributeError):
            calls.no_such_command


if __name__ == "__main__":
    if sys.argv[1:] == ["--speed"]:
        r = polder.attach(SEGMENT, ceiling=128 << 20)
        m, count = r.memory, 300_000
        m.set("k", b"x" * 16)
        for label, call, number in [("get", lambda: m.get("k"), count), ("set", lambda: m.set("k", b"x" * 16), count), ("redis-py get", lambda: r.get("k"), count // 30)]:
            began = time.perf_counter()
            for _ in range(number):
                call()
            print(f"{label}: {number / (time.perf_counter() - began) / 1e6:.3f} M/s")
        polder.Memory.remove(SEGMENT)
    else:
        scene.main("Python door")
