"""polder.aio beside redis-py's asyncio, in turns: connect.py URL [SEGMENT]. With a segment, a GET over shared memory that is awaited, too."""
import asyncio
import statistics
import sys
import time

import redis.asyncio

import polder

TASKS, ROUNDS = 64, 5


async def rate(client, calls):
    async def work(task):
        for n in range(calls):
            if n % 10:
                await client.get(f"k{(task * 7919 + n) % 10000}")
            else:
                await client.set(f"k{(task * 7919 + n) % 10000}", "value")

    began = time.perf_counter()
    await asyncio.gather(*(work(task) for task in range(TASKS)))
    return TASKS * calls / (time.perf_counter() - began)


async def alone(client, calls):
    began = time.perf_counter()
    for _ in range(calls):
        await client.get("k")
    return (time.perf_counter() - began) / calls * 1e6


async def main(url, segment=None):
    ours = polder.aio.connect(url)
    theirs = redis.asyncio.Redis.from_url(url)
    rates = {"polder": [], "redis-py": []}
    for _ in range(ROUNDS):
        rates["polder"].append(await rate(ours, 3000))
        rates["redis-py"].append(await rate(theirs, 300))
    middles = {name: statistics.median(values) for name, values in rates.items()}
    for name, values in rates.items():
        print(f"{TASKS} tasks, 90 % GET, {name}: {middles[name]:.0f} calls/s ({min(values):.0f} to {max(values):.0f})")
    print(f"ratio: {middles['polder'] / middles['redis-py']:.1f}")
    print(f"one task alone, GET: polder {await alone(ours, 5000):.1f} us, redis-py {await alone(theirs, 2000):.1f} us")
    if segment:
        memory = polder.aio.connect(f"polder://{segment}?create=yes")
        await memory.set("k", "value")
        times = [await alone(memory, 100_000) for _ in range(ROUNDS)]
        print(f"GET awaited over shared memory: {statistics.median(times):.2f} us ({min(times):.2f} to {max(times):.2f})")
    await ours.aclose()
    await theirs.aclose()


asyncio.run(main(*sys.argv[1:]))
