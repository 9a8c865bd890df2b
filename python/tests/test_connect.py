"""What polder.connect promises, against a server whose URL is given: test_connect.py redis://127.0.0.1:PORT"""
import asyncio
import gc
import os
import pickle
import subprocess
import sys
import threading
import time
import unittest

import redis

import polder
import scene

URL = sys.argv.pop() if len(sys.argv) > 1 else "redis://127.0.0.1:6379"


class Blocking(scene.Scene):
    """Without an event loop."""

    @classmethod
    def setUpClass(cls):
        cls.r = polder.connect(URL)

    @classmethod
    def tearDownClass(cls):
        cls.r.close()

    def test_methods_arguments_and_replies_are_those_of_redis_py(self):
        r = self.r
        self.assertIs(r.set("k", "v", ex=60), True)
        self.assertEqual((r.get("k"), r.get("none"), r.ttl("k") > 50), (b"v", None, True))
        self.assertIsNone(r.set("k", "w", nx=True))
        self.assertEqual(r.hset("h", mapping={"a": 1, "b": 2.5}), 2)
        self.assertEqual(r.hgetall("h"), {b"a": b"1", b"b": b"2.5"})
        self.assertEqual((r.sadd("s", "x", "y"), r.smembers("s")), (2, {b"x", b"y"}))
        self.assertEqual(r.zadd("z", {"ann": 1.5, "bob": 2}), 2)
        self.assertEqual((r.zscore("z", "ann"), r.zrange("z", 0, -1)), (1.5, [b"ann", b"bob"]))
        self.assertEqual((r.incr("n", 4), r.exists("n", "k", "none"), r.delete("n")), (4, 2, 1))
        entry = r.xadd("x", {"f": "v"})
        self.assertEqual(r.xrange("x"), [(entry, {b"f": b"v"})])
        self.assertEqual(sorted(r.scan_iter()), [b"h", b"k", b"s", b"x", b"z"])
        self.assertIs(r.ping(), True)
        self.assertEqual(r.execute_command("CLIENT GETNAME"), None)
        self.assertIn("redis_version", r.info("server"))

    def test_replies_are_the_same_as_redis_pys(self):
        theirs = redis.Redis.from_url(URL, protocol=3)
        calls = [
            ("rpush", "l", "a", "b", "c"), ("lrange", "l", 0, -1), ("lpop", "l", 2), ("lpos", "l", "c"), ("zadd", "z", {"a": 1}), ("zrange", "z", 0, -1, False, True),
            ("hset", "h", "f", 1), ("hmget", "h", ["f", "g"]), ("hkeys", "h"), ("type", "h"), ("object", "ENCODING", "h"), ("config_get", "maxmemory"),
            ("expire", "h", 100), ("persist", "h"), ("setnx", "k", 1), ("mset", {"a": 1, "b": 2}), ("mget", "a", "b"), ("geoadd", "g", (13.4, 52.5, "Berlin")),
            ("geopos", "g", "Berlin"), ("eval", "return {1, 'a', false}", 0), ("time",), ("dbsize",), ("keys", "g*"), ("bitcount", "a"), ("sismember", "s", "x"),
        ]
        for name, *args in calls:
            if name == "time":
                self.assertEqual(len(self.r.time()), 2)
                continue
            theirs.flushall()
            prepared = [("rpush", "l", "a", "b", "c"), ("hset", "h", "f", "1"), ("zadd", "z", {"b": 2}), ("set", "a", "x")]
            answers = []
            for client in (theirs, self.r):
                client.flushall()
                for what, *with_ in prepared:
                    getattr(client, what)(*with_)
                answers.append(getattr(client, name)(*args))
            self.assertEqual(answers[0], answers[1], name)
        theirs.close()

    def test_errors_are_those_of_redis_py_and_of_polder(self):
        self.r.set("k", "v")
        with self.assertRaises(polder.Error) as caught:
            self.r.lpush("k", 1)
        self.assertIsInstance(caught.exception, redis.ResponseError)
        self.assertIn("WRONGTYPE", str(caught.exception))
        again = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((type(again), str(again)), (type(caught.exception), str(caught.exception)))
        with self.assertRaises(redis.exceptions.NoScriptError):
            self.r.evalsha("0" * 40, 0)
        with self.assertRaises(polder.Usage):
            self.r.execute_command("SELECT", 1)
        with self.assertRaises(redis.DataError):
            self.r.set("k", object())
        with polder.connect("redis://127.0.0.1:1?timeout_ms=200&policy=fail-fast") as down, self.assertRaises(polder.NotSent):
            down.get("k")
        with self.assertRaises(polder.Usage):
            polder.connect("http://nowhere")

    def test_pipelines_are_sent_together(self):
        pipe = self.r.pipeline()
        self.assertEqual(pipe.set("a", 1).incr("a").hset("h", "f", 1).hgetall("h").execute(), [True, 2, 1, {b"f": b"1"}])
        self.assertEqual(pipe.execute(), [])
        with self.assertRaises(redis.ResponseError) as caught:
            self.r.pipeline(transaction=False).get("a").lpush("a", 1).incr("a").execute()
        self.assertIn("Command # 2 (LPUSH)", str(caught.exception))
        replies = self.r.pipeline().lpush("a", 1).incr("a").execute(raise_on_error=False)
        self.assertIsInstance(replies[0], redis.ResponseError)
        self.assertEqual(replies[1], 4)
        with self.assertRaises(polder.Usage):
            self.r.pipeline().watch("a")

    def test_scripts_and_locks(self):
        add = self.r.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
        self.assertEqual((add(keys=["n"], args=[3]), add(keys=["n"], args=[4])), (3, 7))
        with self.r.lock("lock", timeout=10) as lock:
            self.assertTrue(lock.owned())
            self.assertFalse(self.r.lock("lock").acquire(blocking=False))
        self.assertTrue(self.r.lock("lock").acquire(blocking=False))

    def test_calls_that_wait_hold_up_no_other_thread(self):
        heard = []
        waiter = threading.Thread(target=lambda: heard.append(self.r.blpop("jobs", timeout=20)))
        waiter.start()
        self.assertEqual(self.r.incr("n"), 1)
        self.r.rpush("jobs", "one")
        waiter.join(20)
        self.assertEqual(heard, [[b"jobs", b"one"]])

    def test_a_call_that_waits_heeds_signals(self):
        self.assert_heeds_signals(lambda: self.r.blpop("none", timeout=30))

    def test_subscriptions(self):
        with self.r.pubsub() as heard:
            heard.subscribe("news", "sport")
            self.assertEqual(heard.get_message(timeout=20)["type"], "subscribe")
            self.r.publish("news", "one")
            message = heard.get_message(timeout=20)
            self.assertEqual(message, {"type": "message", "pattern": None, "channel": b"news", "data": b"one"})
            self.assertIsNone(heard.get_message())
            heard.psubscribe("w*")
            while heard.get_message(timeout=20)["type"] != "psubscribe":
                pass
            self.r.publish("weather", "sun")
            message = heard.get_message(timeout=20)
            self.assertEqual(message, {"type": "pmessage", "pattern": b"w*", "channel": b"weather", "data": b"sun"})

    def test_texts_are_decoded(self):
        with polder.connect(URL, decode_responses=True) as r:
            r.hset("h", "f", "ü")
            self.assertEqual((r.hget("h", "f"), r.hgetall("h")), ("ü", {"f": "ü"}))
            self.assertIsInstance(r.dump("h"), bytes)

    def test_threads_share_one_connection(self):
        threads = [threading.Thread(target=lambda: [self.r.incr("n") for _ in range(200)]) for _ in range(8)]
        [thread.start() for thread in threads]
        [thread.join(60) for thread in threads]
        self.assertEqual(self.r.get("n"), b"1600")
        self.assertEqual(self.r.stats()["connections"], 1)

    def test_databases_share_a_connection(self):
        with polder.connect(URL) as r:
            r.set("k", "zero")
            views = [r.db(number) for number in range(1, 5)]
            for number, view in enumerate(views, 1):
                self.assertIs(view.set("k", number), True)
                view.fire("INCR", "fired")
            self.assertEqual([view.get("k") for view in views], [b"1", b"2", b"3", b"4"])
            self.assertEqual((r.get("k"), views[0].db(2).get("k"), r.stats()["connections"]), (b"zero", b"2", 1))
            with views[1].pipeline() as pipe:
                self.assertEqual(pipe.incr("k").get("fired").execute(), [3, b"1"])
            self.assertEqual(pickle.loads(pickle.dumps(views[2])).get("k"), b"3")
            [view.flushdb() for view in views]
            # A closed view's next call opens it again, and a closed client's views go on over its next connection.
            views[0].close()
            self.assertIsNone(views[0].get("k"))
        self.assertIsNone(views[1].get("k"))
        self.assertRaises(OverflowError, r.db, -1)

    def test_a_pipeline_with_conditions_runs_whole_or_not_at_all(self):
        free, first = polder.Condition.key_absent("lock"), polder.Condition.value_equals("n", 1)
        self.r.set("n", 1)
        with self.r.pipeline(conditions=[free, first]) as pipe:
            self.assertEqual(pipe.set("lock", "me", ex=60).incr("n").execute(), [True, 2])
        with self.r.pipeline(conditions=[free, first]) as pipe, self.assertRaisesRegex(polder.Unmet, "absent..lock") as raised:
            pipe.set("lock", "you").execute()
        self.assertEqual(raised.exception.conditions, [free, first])
        self.assertIsInstance(raised.exception, redis.WatchError)
        self.r.hset("h", "f", "v"), self.r.sadd("s", "m"), self.r.rpush("l", "a", "b")
        held = [
            polder.Condition.key_exists("h"), polder.Condition.value_differs("lock", "you"), polder.Condition.field_exists("h", "f"),
            polder.Condition.field_equals("h", "f", "v"), polder.Condition.member_exists("s", "m"), polder.Condition.length_equals("l", 2),
        ]
        self.assertEqual(self.r.pipeline(conditions=held).get("lock").execute(), [b"me"])
        self.assertRaises(polder.Unmet, self.r.pipeline(conditions=[polder.Condition.length_equals("l", 3)]).get("lock").execute)
        self.assertRaises(redis.ResponseError, self.r.pipeline(conditions=held).incr("lock").execute)

    def test_kept_replies_are_fresh(self):
        with polder.connect(URL + "?cache_bytes_max=1000000") as r:
            r.set("k", "one")
            kept = r.db(0).cached()
            for _ in range(10):
                self.assertEqual(kept.get("k"), b"one")
            self.assertGreaterEqual(r.stats()["cache_hits"], 8)
            self.r.set("k", "two")
            until = time.monotonic() + 20
            while kept.get("k") != b"two":
                self.assertLess(time.monotonic(), until)

    def test_a_forked_child_connects_anew(self):
        self.r.set("k", "parent")
        child = os.fork()
        if child == 0:
            os._exit(0 if self.r.get("k") == b"parent" and self.r.set("c", 1) else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(self.r.get("c"), b"1")

    def test_what_was_taken_before_a_fork_says_so_in_the_child(self):
        get, heard = self.r.get, self.r.pubsub()
        heard.subscribe("news")
        child = os.fork()
        if child == 0:
            outcome = 1
            try:
                get("k")
            except polder.Ended as error:
                outcome = 0 if "forked" in str(error) and not heard.subscribed else 2
            finally:
                os._exit(outcome)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(heard.get_message(timeout=20)["type"], "subscribe")
        heard.close()

    def test_a_forked_child_ends_as_any_program(self):
        script = f"""
import os, sys, threading, polder
r = polder.connect({URL!r})
waiter = threading.Thread(target=r.blpop, args=("jobs", 20))
waiter.start()
child = os.fork()
if child == 0:
    sys.exit(0)
outcome = os.waitpid(child, 0)[1]
r.rpush("jobs", "one")
waiter.join(20)
sys.exit(outcome != 0)
"""
        subprocess.run([sys.executable, "-c", script], check=True, timeout=60)

    def test_a_closed_subscription_ends_its_reader(self):
        heard = self.r.pubsub(ignore_subscribe_messages=True)
        heard.subscribe("news")
        heard.psubscribe("w*")
        messages = []
        reader = threading.Thread(target=lambda: messages.extend(heard.listen()))
        reader.start()
        while not self.r.publish("weather", "sun"):
            pass
        until = time.monotonic() + 20
        while not messages and time.monotonic() < until:
            time.sleep(0.01)
        heard.close()
        reader.join(20)
        self.assertFalse(reader.is_alive())
        self.assertEqual(messages[0]["data"], b"sun")

    def test_closed_clients_leave_no_descriptor(self):
        def descriptors():
            return len(os.listdir("/proc/self/fd"))

        def use():
            with polder.connect(URL) as r:
                r.ping()

        use()
        before, until = descriptors(), time.monotonic() + 20
        for _ in range(20):
            use()
        while descriptors() > before and time.monotonic() < until:
            time.sleep(0.01)
        self.assertLessEqual(descriptors(), before)

    def test_what_was_fired_is_sent_before_the_program_ends(self):
        fire = f"import polder\nr = polder.connect({URL!r})\nfor _ in range(1000): r.fire('INCR', 'n')\n"
        for number, end in enumerate(["r.close()", ""], 1):
            subprocess.run([sys.executable, "-c", fire + end], check=True, timeout=60)
            self.assertEqual(self.r.get("n"), str(1000 * number).encode())

    def test_a_client_is_pickled_by_its_url(self):
        self.r.set("k", "v")
        with pickle.loads(pickle.dumps(self.r)) as other:
            self.assertEqual(other.get("k"), b"v")

    def test_fired_calls_are_made(self):
        for _ in range(100):
            self.r.fire("INCR", "n")
        self.assertEqual(self.r.get("n"), b"100")


class EventLoop(unittest.IsolatedAsyncioTestCase):
    """With asyncio."""

    async def asyncSetUp(self):
        self.r = polder.aio.connect(URL)
        await self.r.flushall()

    async def asyncTearDown(self):
        await self.r.aclose()

    async def test_methods_are_awaited(self):
        r = self.r
        self.assertIs(await r.set("k", "v", px=60000), True)
        self.assertEqual(await r.get("k"), b"v")
        self.assertEqual(await r.hset("h", mapping={"a": 1}), 1)
        self.assertEqual(await r.hgetall("h"), {b"a": b"1"})
        self.assertEqual(sorted([key async for key in r.scan_iter()]), [b"h", b"k"])
        with self.assertRaises(redis.ResponseError):
            await r.lpush("k", 1)
        with self.assertRaises(polder.Usage):
            await r.execute_command("SELECT", 1)

    async def test_tasks_share_one_connection_and_each_gets_its_own_reply(self):
        async def work(task):
            for n in range(100):
                await self.r.set(f"k{task}", n)
                self.assertEqual(await self.r.get(f"k{task}"), str(n).encode())

        await asyncio.gather(*(work(task) for task in range(64)))
        self.assertEqual(self.r.stats()["connections"], 1)
        self.assertEqual(self.r._core.in_flight(), 0)

    async def test_pipelines_and_scripts(self):
        self.assertEqual(await self.r.pipeline().set("a", 1).incr("a").execute(), [True, 2])
        async with self.r.pipeline(transaction=False) as pipe:
            pipe.get("a")
            pipe.lpush("a", 1)
            replies = await pipe.execute(raise_on_error=False)
        self.assertEqual((replies[0], type(replies[1]).__mro__[1]), (b"2", polder.Error))
        add = self.r.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
        self.assertEqual(await add(keys=["n"], args=[3]), 3)
        async with self.r.lock("lock", timeout=10):
            self.assertFalse(await self.r.lock("lock").acquire(blocking=False))

    async def test_a_cancelled_call_takes_no_element(self):
        waiting = asyncio.ensure_future(self.r.blpop("jobs", timeout=30))
        await asyncio.sleep(0)
        until = time.monotonic() + 20
        while (await self.r.info("clients"))["blocked_clients"] == 0 and time.monotonic() < until:
            await asyncio.sleep(0.01)
        waiting.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await waiting
        while (await self.r.info("clients"))["blocked_clients"] > 0 and time.monotonic() < until:
            await asyncio.sleep(0.01)
        await self.r.rpush("jobs", "one")
        self.assertEqual(await self.r.lrange("jobs", 0, -1), [b"one"])
        # One that is not cancelled gets it.
        self.assertEqual(await self.r.blpop("jobs", timeout=30), [b"jobs", b"one"])

    async def test_subscriptions(self):
        heard = self.r.pubsub()
        await heard.subscribe("news")
        self.assertEqual((await heard.get_message(timeout=20))["type"], "subscribe")
        self.assertIsNone(await heard.get_message(timeout=0.01))
        await self.r.publish("news", "one")
        async for message in heard.listen():
            self.assertEqual((message["channel"], message["data"]), (b"news", b"one"))
            break
        reading = asyncio.ensure_future(heard.get_message(timeout=None))
        await asyncio.sleep(0)
        await heard.aclose()
        self.assertIsNone(await asyncio.wait_for(reading, 20))


class EventLoops(unittest.TestCase):
    def test_a_client_moves_to_the_next_event_loop(self):
        r = polder.aio.connect(URL)
        for n in range(3):
            async def work():
                return await r.incr("loops")
            last = asyncio.run(work())
        self.assertGreaterEqual(last, 3)
        with self.assertRaises(RuntimeError):
            r.get("k")

    def test_what_was_fired_is_sent_before_the_client_is_closed(self):
        async def work():
            async with polder.aio.connect(URL) as r:
                await r.delete("n")
                for _ in range(1000):
                    r.fire("INCR", "n")
            async with polder.aio.connect(URL) as r:
                self.assertEqual(await r.get("n"), b"1000")

        asyncio.run(work())

    def test_calls_in_flight_fail_when_the_client_is_closed(self):
        async def work():
            r = polder.aio.connect(URL)
            waiting = asyncio.ensure_future(r.blpop("none", timeout=60))
            await r.ping()
            await r.aclose()
            with self.assertRaises(polder.OutcomeUnknown) as caught:
                await asyncio.wait_for(waiting, 20)
            self.assertIn("closed", str(caught.exception))

        asyncio.run(work())

    def test_databases_and_conditions_of_an_event_loop(self):
        async def work():
            r = polder.aio.connect(URL)
            views = [r.db(number) for number in range(5)]
            await asyncio.gather(*(view.incr("views") for view in views for _ in range(100)))
            self.assertEqual(await asyncio.gather(*(view.get("views") for view in views)), [b"100"] * 5)
            self.assertEqual(r.stats()["connections"], 1)
            del views[4]
            gc.collect()
            await views[3].aclose()
            self.assertEqual(await views[3].getdel("views"), b"100")
            absent = polder.Condition.key_absent("views")
            self.assertEqual(await views[3].pipeline(conditions=[absent]).set("views", 1).execute(), [True])
            with self.assertRaises(polder.Unmet):
                await views[3].pipeline(conditions=[absent]).set("views", 1).execute()
            [await view.flushdb() for view in (views[1], views[2], views[3], r.db(4))]
            await r.aclose()

        asyncio.run(work())

    def test_conditions_are_judged_without_a_thread_of_the_pool(self):
        async def work():
            r = polder.aio.connect(URL)
            await r.delete("turn")
            absent = polder.Condition.key_absent("turn")

            async def take(number):
                try:
                    return await r.pipeline(conditions=[absent]).set("turn", number).execute()
                except polder.Unmet as unmet:
                    self.assertEqual(unmet.conditions, [absent])
                    return None

            taken = await asyncio.gather(*(take(number) for number in range(50)))
            self.assertEqual(sorted(taken, key=bool), [None] * 49 + [[True]])
            self.assertIsNone(asyncio.get_running_loop()._default_executor)
            # One that is cancelled at once has not run, or has run whole; the client goes on.
            held = [polder.Condition.key_exists("turn")]
            cancelled = asyncio.ensure_future(r.pipeline(conditions=held).incr("turns").incr("turns").execute())
            await asyncio.sleep(0)
            cancelled.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await cancelled
            self.assertEqual(await r.pipeline(conditions=held).incr("later").execute(), [1])
            self.assertIn(await r.get("turns"), [None, b"2"])
            await r.delete("turn", "turns", "later")
            await r.aclose()

        asyncio.run(work())

    def test_a_client_that_is_dropped_leaves_the_event_loop_after_its_calls(self):
        async def work():
            async def once():
                return await polder.aio.connect(URL).incr("n")

            await once()
            gc.collect()
            before, until = len(os.listdir("/proc/self/fd")), time.monotonic() + 20
            for _ in range(20):
                self.assertGreater(await once(), 0)
            while len(os.listdir("/proc/self/fd")) > before and time.monotonic() < until:
                gc.collect()
                await asyncio.sleep(0.01)
            self.assertLessEqual(len(os.listdir("/proc/self/fd")), before)

        asyncio.run(work())


if __name__ == "__main__":
    scene.main("connect")
