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


def arrays(client):
    """The calls of redis-py 8.1 for arrays and imported hashes."""
    if not hasattr(client, "arset"):
        return
    assert client.arset("a", 2, "x", "y") == 2
    assert client.armset("a", {0: "first", 100: "last"}) == 2
    assert client.arget("a", 3) == "y"
    assert client.armget("a", 0, 1, 100) == ["first", None, "last"]
    assert client.argetrange("a", 0, 3) == ["first", None, "x", "y"]
    assert client.arscan("a", 0, 1000, limit=2) == [[0, "first"], [2, "x"]]
    assert (client.arlen("a"), client.arcount("a")) == (101, 4)
    assert client.arinfo("a")["count"] == 4
    assert client.ardelrange("a", (0, 3)) == 3
    assert client.ardel("a", 100) == 1
    assert not client.exists("a")
    assert client.arinsert("log", "10", "20") == 1
    assert client.arnext("log") == 2
    assert client.arring("ring", 2, "a", "b", "c") == 0
    assert client.arlastitems("ring", 2) == ["b", "c"]
    client.himport_prepare("people", ["name", "age"])
    assert client.himport_set("person:1", "people", ["ann", "30"])
    assert client.hgetall("person:1") == {"name": "ann", "age": "30"}
    assert client.himport_discard("people") == 1


TESTS = [strings, bits, keys, scanning, transactions, errors, server, arrays]


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
