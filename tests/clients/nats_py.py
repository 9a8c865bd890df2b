"""nats-py, unmodified, beside redis-py: publish, subscribe, wildcards, headers, queues, request and reply, drain. `nats_py.py NATS_PORT PORT`."""
import asyncio
import sys

import nats
import redis
from nats.errors import NoRespondersError

NATS_PORT, PORT = sys.argv[1], int(sys.argv[2])


async def connect(**options):
    return await nats.connect(f"nats://127.0.0.1:{NATS_PORT}", **options)


async def collected(messages, count):
    return [await asyncio.wait_for(messages.get(), 30) for _ in range(count)]


async def hears(client, subject, **options):
    messages = asyncio.Queue()
    subscription = await client.subscribe(subject, cb=messages.put, **options)
    await client.flush()
    return messages, subscription


async def messages_cross_between_both_clients():
    db, client, other = redis.Redis(port=PORT), await connect(), await connect()
    heard, _ = await hears(other, "orders.*.new")
    channel = db.pubsub()
    channel.psubscribe("orders.*")
    assert channel.get_message(timeout=30)["type"] == "psubscribe"
    assert db.publish("orders.eu.new", "by redis") == 2
    await client.publish("orders.eu.new", b"by nats", headers={"Kind": "test"})
    await client.flush()
    first, second = await collected(heard, 2)
    assert (first.data, first.headers) == (b"by redis", None)
    assert (second.data, second.headers) == (b"by nats", {"Kind": "test"})
    for payload in (b"by redis", b"by nats"):
        message = channel.get_message(timeout=30)
        assert (message["channel"], message["data"]) == (b"orders.eu.new", payload), message
    await client.close()
    await other.close()


async def requests_have_replies_and_none_where_none_comes():
    service, client = await connect(), await connect()

    async def answer(message):
        await message.respond(b"re: " + message.data)

    await service.subscribe("svc", queue="workers", cb=answer)
    await service.flush()
    for number in range(100):
        data = str(number).encode()
        assert (await client.request("svc", data, timeout=30)).data == b"re: " + data
    assert (await client.request("svc", b"old", timeout=30, old_style=True)).data == b"re: old"
    try:
        await client.request("unheard", b"", timeout=30)
    except NoRespondersError:
        pass
    else:
        raise AssertionError("a reply without a responder")
    await service.drain()
    await client.close()


async def each_message_of_a_queue_comes_once():
    publisher, members = await connect(), [await connect() for _ in range(3)]
    queues = [(await hears(member, "jobs.>", queue="q"))[0] for member in members]
    for number in range(300):
        await publisher.publish("jobs.a.b", str(number).encode())
    await publisher.flush()
    for member in members:
        await member.flush()
    heard = []
    for queue in queues:
        own = [int(message.data) for message in await collected(queue, queue.qsize())]
        assert own == sorted(own) and len(own) > 20, own
        heard += own
    assert sorted(heard) == list(range(300)), len(heard)
    for client in [publisher, *members]:
        await client.close()


async def a_subscription_ends_after_its_messages_or_at_once():
    client = await connect()
    heard, subscription = await hears(client, "a")
    await subscription.unsubscribe(limit=2)
    for number in range(4):
        await client.publish("a", str(number).encode())
    await client.flush()
    assert [message.data for message in await collected(heard, 2)] == [b"0", b"1"]
    await client.flush()
    assert heard.empty()
    await client.drain()


async def main():
    tests = [
        messages_cross_between_both_clients,
        requests_have_replies_and_none_where_none_comes,
        each_message_of_a_queue_comes_once,
        a_subscription_ends_after_its_messages_or_at_once,
    ]
    for test in tests:
        await test()
    print(f"nats-py: {len(tests)} passed, 0 failed")


asyncio.run(main())
