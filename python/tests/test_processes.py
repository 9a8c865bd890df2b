"""Forks, threads and preloading: what a server such as gunicorn does to an attachment. Run by python/test.sh."""
import concurrent.futures
import functools
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback

import redis

import polder
import scene

SEGMENT = scene.segment("processes")
PATIENCE = 60


def child(work):
    """Runs something in a forked child: its process."""
    number = os.fork()
    if number:
        return number
    code = 1
    try:
        # Who hangs is ended, and told apart.
        signal.alarm(PATIENCE)
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def serve(r, worker):
    """What a preloaded worker does with the client that its parent has made."""
    assert r.get("config") == b"preloaded"
    for _ in range(200):
        r.incr("requests")
    cache = r.cache("cache:")
    cache[f"worker:{worker}"] = b"x"
    with r.pipeline() as pipe:
        assert pipe.set(f"p:{worker}", 1).incr(f"p:{worker}").execute() == [True, 2]
    assert r.eval("return redis.call('GET', KEYS[1])", 1, "config") == b"preloaded"
    assert r.config_get("maxmemory") and r.client_list()
    with r.pubsub(ignore_subscribe_messages=True) as p:
        p.subscribe(f"news:{worker}")
        p.get_message(timeout=0.01)
        assert r.publish(f"news:{worker}", "x") == 1
        assert p.get_message(timeout=PATIENCE)["data"] == b"x"
    assert r.blpop(f"none:{worker}", timeout=0.01) is None


def squared(name, number):
    r = polder.attach(name)
    return int(r.incrby("sum", number * number)) and number * number


class Processes(scene.Scene):
    SEGMENT = SEGMENT

    def setUp(self):
        super().setUp()
        self.r.set("config", "preloaded")

    def ended(self, children):
        self.assertEqual([os.waitpid(number, 0)[1] for number in children], [0] * len(children))

    def test_workers_go_on_with_what_was_preloaded(self):
        self.r.get("config")
        with self.r.pubsub(ignore_subscribe_messages=True) as p:
            p.subscribe("parent")
            p.get_message(timeout=0.01)
            self.ended([child(lambda worker=worker: serve(self.r, worker)) for worker in range(4)])
            self.assertEqual(self.r.publish("parent", "m"), 1)
            self.assertEqual(p.get_message(timeout=PATIENCE)["data"], b"m")
        self.assertEqual(self.r.get("requests"), b"800")
        self.assertEqual(len(self.r.cache("cache:")), 4)

    def test_forks_between_busy_threads_leave_no_child_behind(self):
        over = threading.Event()
        failed = []

        def guarded(work):
            try:
                while not over.is_set():
                    work()
            except BaseException as failure:
                failed.append(failure)

        def calls():
            self.r.set("k", "v")
            self.r.eval("return 1", 0)
            self.r.config_get("*")
            self.r.info()

        def subscriptions():
            with self.r.pubsub() as p:
                p.subscribe("busy")
                p.get_message(timeout=0.001)
                self.r.publish("busy", "m")

        def waits():
            self.r.blpop("none", timeout=0.002)
            polder.Commands(self.r.memory).client_list()

        threads = [threading.Thread(target=guarded, args=(work,)) for work in (calls, subscriptions, waits, calls)]
        [thread.start() for thread in threads]
        try:
            for turn in range(12):
                self.ended([child(lambda: serve(self.r, turn))])
        finally:
            over.set()
            [thread.join(PATIENCE) for thread in threads]
        self.assertEqual(failed, [])

    def test_a_child_does_not_wait_for_a_lock_of_redis_py_that_a_thread_of_the_parent_held(self):
        holders = [self.r, self.r.connection_pool]
        holders += [holder._event_dispatcher for holder in holders if hasattr(holder, "_event_dispatcher")]
        kinds = (type(threading.Lock()), type(threading.RLock()))
        locks = {id(lock): lock for holder in holders for lock in vars(holder).values() if isinstance(lock, kinds)}
        self.assertGreaterEqual(len(locks), 3)
        held, over = threading.Event(), threading.Event()

        def hold():
            [lock.acquire() for lock in locks.values()]
            held.set()
            over.wait(PATIENCE)
            [lock.release() for lock in locks.values()]

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(PATIENCE)
        try:
            self.ended([child(lambda: serve(self.r, 1))])
        finally:
            over.set()
            thread.join(PATIENCE)

    def test_a_child_is_told_of_a_caller_that_a_thread_of_the_parent_uses(self):
        commands = polder.Commands(self.r.memory)
        thread = threading.Thread(target=commands.eval, args=("local n = 0 while n < 3e7 do n = n + 1 end return n", 0))
        thread.start()
        # As long as it runs.
        while True:
            try:
                commands.get("config")
            except RuntimeError:
                break

        def first():
            with self.assertRaisesRegex(redis.ConnectionError, "parent"):
                commands.get("config")
            assert polder.Commands(self.r.memory).get("config") == b"preloaded"
            serve(self.r, 1)

        self.ended([child(first)])
        thread.join(PATIENCE)
        self.assertEqual(commands.get("config"), b"preloaded")

    def while_it_waits(self, work, end):
        """Whether other threads run while one waits in `work`, until `end` lets it go on."""
        done = []
        thread = threading.Thread(target=lambda: done.append(work()))
        thread.start()
        began, most, last = time.monotonic(), 0, time.monotonic()
        while time.monotonic() - began < 0.3:
            time.sleep(0.001)
            most, last = max(most, time.monotonic() - last), time.monotonic()
        self.assertEqual(done, [])
        end()
        thread.join(PATIENCE)
        self.assertEqual(len(done), 1)
        return most

    def test_who_waits_for_a_stopped_writer_lets_other_threads_run(self):
        def hold():
            self.r.eval("redis.call('SET', KEYS[1], 1) redis.call('SET', 'held', 1) while true do redis.sha1hex('x') end", 1, "k")

        cache, memory = self.r.cache(), self.r.memory
        for work in (lambda: memory.set("k", "v"), lambda: memory.add("k", 1), lambda: memory.delete("k"), lambda: cache.__setitem__("k", "v"),
                     lambda: self.r.set("k", "v"), lambda: self.r.lpush("k", "v") if self.r.delete("k") else None,
                     lambda: self.r.pipeline().set("k", 1).incr("k").execute(), lambda: polder.Commands(memory).append("k", "v")):
            writer = child(hold)
            time.sleep(0.3)
            os.kill(writer, signal.SIGSTOP)
            os.waitpid(writer, os.WUNTRACED)

            def end():
                os.kill(writer, signal.SIGKILL)
                os.waitpid(writer, 0)

            self.assert_heeds_signals(work)
            self.assertLess(self.while_it_waits(work, end), 0.25)
            self.r.delete("k")

    def test_a_pause_holds_typed_calls_back_and_lets_other_threads_run(self):
        cache, memory = self.r.cache(), self.r.memory
        for work in (lambda: memory.set("k", "v"), lambda: memory.add("n", 1), lambda: cache.__setitem__("k", "v"), lambda: self.r.set("k", "v")):
            self.r.client_pause(60000, all=False)
            self.assertEqual((memory.get("config"), cache.get("config"), self.r.get("config")), (b"preloaded",) * 3)
            self.assert_heeds_signals(work)
            self.assertLess(self.while_it_waits(work, self.r.client_unpause), 0.25)
        for work in (lambda: memory.get("k"), lambda: "k" in cache, lambda: self.r.get("k")):
            # It ends by itself: nobody may end it either.
            self.r.client_pause(600)
            self.assertLess(self.while_it_waits(work, lambda: None), 0.25)

    def test_a_child_of_a_child(self):
        def first():
            self.r.incr("requests")
            status = os.waitpid(child(lambda: serve(self.r, 1)), 0)[1]
            assert status == 0
            self.r.incr("requests")

        self.ended([child(first)])
        self.assertEqual(self.r.get("requests"), b"202")

    def test_pools_of_processes_and_threads(self):
        for how in ("fork", "spawn"):
            self.r.delete("sum")
            with multiprocessing.get_context(how).Pool(3) as pool:
                self.assertEqual(pool.map(functools.partial(squared, SEGMENT), range(1, 20)), [number * number for number in range(1, 20)], how)
            self.assertEqual(int(self.r.get("sum")), sum(number * number for number in range(1, 20)))
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: [self.r.hincrby("h", "f", number) for _ in range(50)], range(8)))
        self.assertEqual(self.r.hget("h", "f"), str(50 * 28).encode())

    def test_a_killed_worker_holds_nobody_up(self):
        def busy():
            while True:
                self.r.incr("n")
                self.r.rpush("l", "x")

        for _ in range(5):
            workers = [child(busy) for _ in range(3)]
            time.sleep(0.1)
            [os.kill(worker, signal.SIGKILL) for worker in workers]
            [os.waitpid(worker, 0) for worker in workers]
            self.assertEqual(self.r.incr("n") - self.r.rpush("l", "x") in range(-3, 18), True)


if __name__ == "__main__":
    scene.main("Python processes")
