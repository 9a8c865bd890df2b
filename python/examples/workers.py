"""Workers that share a rate limiter and a cache: however many processes there are, nobody asks the slow service more often than it allows, and
nobody asks it twice for the same.

    python workers.py MEMORY WORKERS REQUESTS
"""
import multiprocessing
import sys
import time

import polder

# What the slow service bears: so many calls in a window of this many seconds.
CALLS_MAX, WINDOW = 20, 1


class Limiter:
    """A sliding window in a sorted set, moved on by one script: nobody comes between the look and the entry."""

    SCRIPT = """
        redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[1] - ARGV[2])
        if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
        redis.call('ZADD', KEYS[1], ARGV[1], ARGV[4])
        redis.call('PEXPIRE', KEYS[1], ARGV[2])
        return 1
    """

    def __init__(self, r, name, most, window):
        self._take = r.register_script(self.SCRIPT)
        self._r, self._name, self._most, self._window_ms = r, name, most, int(window * 1000)

    def wait(self):
        while True:
            now_ms = int(time.time() * 1000)
            ticket = self._r.incr(f"{self._name}:ticket")
            if self._take(keys=[self._name], args=[now_ms, self._window_ms, self._most, ticket]):
                return
            time.sleep(0.005)


def work(name, worker, requests):
    r = polder.attach(name)
    cache, limiter = r.cache("prices:"), Limiter(r, "limit", CALLS_MAX, WINDOW)

    @cache.memoize(ttl=60)
    def price(item):
        limiter.wait()
        r.rpush("asked", f"{time.time():.6f}")
        return item * 7

    for request in range(requests):
        item = (worker + request) % 30
        assert price(item) == item * 7


def main(name, workers, requests):
    context = multiprocessing.get_context("spawn")
    started = [context.Process(target=work, args=(name, worker, requests)) for worker in range(workers)]
    [process.start() for process in started]
    [process.join() for process in started]
    assert not any(process.exitcode for process in started), "a worker has failed"
    asked = sorted(float(moment) for moment in polder.attach(name).lrange("asked", 0, -1))
    for first, behind in zip(asked, asked[CALLS_MAX:]):
        assert behind - first > WINDOW * 0.9, "the service was asked too often"
    print(f"{workers * requests} requests of {workers} workers: {len(asked)} calls of the service")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
