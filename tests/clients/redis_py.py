"""Stock redis-py against a Polder server: `redis_py.py PORT`. Prints `redis-py: N passed, M failed`."""

import sys
import time

import redis


def strings(client):
    assert client.set("a", "1") is True
    assert client.get("a") == "1"
    assert client.set("a", "2", nx=True) is None
    assert client.set("a", "3", ex=100, get=True) == "1"
    assert 0 < client.ttl("a") <= 100
    assert client.incrby("a", 7) == 10
    assert client.append("a", "x") == 3
    assert client.mset({"b": "1", "c": "2"}) is True
    assert client.mget("b", "nothing", "c") == ["1", None, "2"]
    assert client.incrbyfloat("f", "1.10") == 1.1
    assert client.strlen("a") == 3
    assert client.getrange("a", 0, 1) == "10"


def bits(client):
    assert client.setbit("bits", 7, 1) == 0
    assert client.bitcount("bits") == 1
    assert client.bitpos("bits", 1) == 7
    assert client.bitfield("bits").incrby("u8", "#1", 200).execute() == [200]


def keys(client):
    client.set("k", "v")
    assert client.exists("k", "k", "none") == 2
    assert client.rename("k", "l") is True
    assert client.type("l") == "string"
    assert client.expire("l", 100, nx=True) is True
    assert client.persist("l") is True
    assert client.copy("l", "m") is True
    assert client.unlink("l", "m") == 2
    client.set("soon", "1", px=30)
    time.sleep(0.05)
    assert client.get("soon") is None


def scanning(client):
    with client.pipeline(transaction=False) as pipe:
        for at in range(1000):
            pipe.set(f"scan:{at}", at)
        pipe.execute()
    assert len(set(client.scan_iter("scan:*", count=50))) == 1000
    assert client.dbsize() == 1000


def transactions(client):
    with client.pipeline() as pipe:
        pipe.watch("n")
        pipe.multi()
        pipe.incr("n")
        pipe.incr("n")
        assert pipe.execute() == [1, 2]
    with client.pipeline() as pipe:
        pipe.watch("n")
        client.set("n", "9")
        pipe.multi()
        pipe.incr("n")
        try:
            pipe.execute()
        except redis.WatchError:
            return
    raise AssertionError("the watched key had changed")


def errors(client):
    client.set("text", "abc")
    try:
        client.incr("text")
    except redis.ResponseError as error:
        assert str(error) == "value is not an integer or out of range"
    else:
        raise AssertionError("INCR of text")


def server(client):
    assert client.ping() is True
    assert client.echo("hello") == "hello"
    assert client.info("server")["redis_version"] == "7.4.0"
    assert client.config_get("maxmemory") == {"maxmemory": "0"}
    assert client.client_setname("py") is True
    assert client.client_getname() == "py"
    assert len(client.client_list()) >= 1
    assert client.command_count() > 80
    assert len(client.time()) == 2


TESTS = [strings, bits, keys, scanning, transactions, errors, server]


def main(port):
    passed, failed = 0, 0
    for protocol in (2, 3):
        for test in TESTS:
            client = redis.Redis(port=port, protocol=protocol, decode_responses=True)
            client.flushall()
            try:
                test(client)
                passed += 1
            except Exception as error:
                failed += 1
                print(f"redis-py, RESP{protocol}, {test.__name__}: {type(error).__name__}: {error}")
            client.close()
    print(f"redis-py: {passed} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(1 if main(int(sys.argv[1])) else 0)
