"""Clients of memcached against a Polder server, and generated traffic against it and memcached itself.

`memcached.py [--unix PATH] [--udp PORT] POLDER-PORT [MEMCACHED-PORT] [SEED]`. Prints `memcached clients: N passed, M failed`.
"""

import argparse
import random
import re
import socket
import struct
import sys


def pymemcache_works(port):
    from pymemcache.client.base import Client

    pymemcache_works_at(Client, ("127.0.0.1", port))


def unix_socket_works(path):
    import pylibmc
    from pymemcache.client.base import Client

    pymemcache_works_at(Client, path)
    for binary in (False, True):
        client = pylibmc.Client([path], binary=binary)
        assert client.set("a", "b" * 100_000) and client.get("a") == "b" * 100_000 and client.delete("a")


def pymemcache_works_at(Client, place):
    client = Client(place, default_noreply=False)
    client.flush_all()
    assert client.set("a", "1") and client.get("a") == b"1"
    assert client.get_many(["a", "b"]) == {"a": b"1"}
    assert not client.add("a", "2") and client.replace("a", "3") and client.append("a", "4") and client.prepend("a", "2")
    value, cas = client.gets("a")
    assert value == b"234" and client.cas("a", "9", cas) is True and client.cas("a", "9", cas) is False
    assert client.cas("none", "9", cas) is None
    assert client.incr("a", 3) == 12 and client.decr("a", 20) == 0 and client.incr("none", 1) is None
    assert client.touch("a", 100) and client.get("a") == b"0" and client.delete("a") and not client.delete("a")
    assert client.set_many({str(n): "x" * n for n in range(300)}) == []
    assert len(client.get_many([str(n) for n in range(300)])) == 300
    assert client.version().startswith(b"1.6") and client.stats()[b"curr_items"] == 300
    assert client.set("quiet", "1", noreply=True) and client.get("quiet") == b"1"
    client.quit()


def pylibmc_works(port):
    import pylibmc

    for binary in (False, True):
        client = pylibmc.Client([f"127.0.0.1:{port}"], binary=binary, behaviors={"cas": True})
        client.flush_all()
        assert client.set("a", {"b": [1, 2]}) and client.get("a") == {"b": [1, 2]}
        assert client.set_multi({"x": 1, "y": "two"}) == [] and client.get_multi(["x", "y", "z"]) == {"x": 1, "y": "two"}
        assert client.incr("x", 4) == 5 and not client.add("x", 1) and client.delete("x") and not client.delete("x")
        value, cas = client.gets("y")
        assert value == "two" and client.cas("y", "three", cas) and client.get("y") == "three"
        assert client.touch("y", 100)


def bmemcached_works(port):
    import bmemcached

    client = bmemcached.Client((f"127.0.0.1:{port}",))
    client.flush_all()
    assert client.set("a", "1") and client.get("a") == "1" and client.incr("n", 5, default=7) == 7 and client.incr("n", 5) == 12
    assert client.get_multi(["a", "none"]) == {"a": "1"} and client.delete("a") and client.get("a") is None


class Guest:
    """A client of memcached over UDP."""

    def __init__(self, port, room=1 << 20):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        self.socket.settimeout(10)
        self.socket.connect(("127.0.0.1", port))
        self.number = 0

    def send(self, request):
        self.number = (self.number + 1) & 0xFFFF
        self.socket.send(struct.pack(">HHHH", self.number, 0, 1, 0) + request)

    def ask(self, request):
        self.send(request)
        parts, total = {}, 1
        while len(parts) < total:
            datagram = self.socket.recv(1 << 16)
            number, at, total, _ = struct.unpack(">HHHH", datagram[:8])
            if number == self.number:
                parts[at] = datagram[8:]
        return b"".join(parts[at] for at in range(total))


def udp_works(port):
    guest = Guest(port)
    assert guest.ask(b"flush_all\r\n") == b"OK\r\n"
    assert guest.ask(b"set a 7 0 5\r\nhello\r\n") == b"STORED\r\n"
    assert guest.ask(b"get a b\r\n") == b"VALUE a 7 5\r\nhello\r\nEND\r\n"
    assert guest.ask(b"mg a v f k\r\n") == b"VA 5 f7 ka\r\nhello\r\n"
    long = b"x" * 50_000
    assert guest.ask(b"set long 0 0 %d\r\n%s\r\n" % (len(long), long)) == b"STORED\r\n"
    assert guest.ask(b"get long\r\n") == b"VALUE long 0 50000\r\n" + long + b"\r\nEND\r\n"
    # A short request has a short reply, whatever is asked for.
    assert guest.ask(b"get" + b" long" * 100 + b"\r\n") == b"SERVER_ERROR too long for UDP\r\n"
    assert guest.ask(packet(0x0A))[:2] == b"\x81\x0a"
    assert guest.ask(b"version\r\n").startswith(b"VERSION 1.6")


class Line:
    """A connection that says something and returns everything that comes until the reply to a marker."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.settimeout(10)

    def until(self, data, marker, end):
        self.socket.sendall(data + marker)
        said = b""
        while not said.endswith(end):
            more = self.socket.recv(1 << 16)
            if not more:
                return said + b"<closed>"
            said += more
        return said[: -len(end)]


def text(port):
    line = Line(port)
    return lambda request: line.until(request, b"mn\r\n", b"MN\r\n")


NOOP = struct.pack(">BBHBBHI4sQ", 0x81, 0x0A, 0, 0, 0, 0, 0, b"mark", 0)


def packet(opcode, key=b"", extras=b"", value=b"", cas=0):
    body = extras + key + value
    return struct.pack(">BBHBBHI4sQ", 0x80, opcode, len(key), len(extras), 0, 0, len(body), b"opaq", cas) + body


def binary(port):
    line = Line(port)
    marker = struct.pack(">BBHBBHI4sQ", 0x80, 0x0A, 0, 0, 0, 0, 0, b"mark", 0)
    return lambda request: line.until(request, marker, NOOP)


def a_key(draw):
    return draw.choice([b"a", b"b", b"n", b"key", b"k" * 250, b"n2"])


def a_value(draw):
    # memcached pads a number that becomes shorter with blanks, and we do not: no number here ever does.
    return draw.choice([b"", b"1", b"text", b"x" * 500, b"42", b"END\r", b"y" * 9000])


def text_request(draw):
    key, value = a_key(draw), a_value(draw)
    quiet = draw.choice([b"", b"", b"", b" noreply"])
    time = draw.choice([b"0", b"0", b"100", b"-1", b"2591999", b"2000000000", b"x"])
    flags = draw.choice([b"0", b"5", b"4294967295", b"07", b"x"])
    kind = draw.randrange(12)
    if kind < 4:
        verb = draw.choice([b"set", b"set", b"set", b"add", b"replace", b"append", b"prepend"])
        if b"x" in flags + time:
            # What stands behind a wrong line is read as lines.
            value, quiet = b"nonsense", b""
        return b"%s %s %s %s %d%s\r\n%s\r\n" % (verb, key, flags, time, len(value), quiet, value)
    if kind < 7:
        return b"get " + b" ".join(a_key(draw) for _ in range(draw.randrange(1, 9))) + b"\r\n"
    if kind == 7:
        return b"%s %s %s%s\r\n" % (b"incr", key, draw.choice([b"1", b"7", b"99999999999", b"x", b"-1"]), quiet)
    if kind == 8:
        return b"delete %s%s\r\n" % (key, draw.choice([quiet, b" 0", b" 7"]))
    if kind == 9:
        return b"touch %s %s%s\r\n" % (key, time, quiet)
    if kind == 10:
        return b"gat %s %s %s\r\n" % (time, key, a_key(draw))
    return draw.choice([b"verbosity 1\r\n", b"nonsense\r\n", b"get\r\n", b"set a\r\n", b"cas a 0 0 1 1 1 1\r\n", b" get a\r\n", b"get " + b"k" * 251 + b"\r\n"])


def meta_request(draw):
    key, value = a_key(draw), a_value(draw)
    echo = draw.sample([b"k", b"Oabc"], draw.randrange(3))
    kind = draw.randrange(8)
    if kind < 3:
        flags = draw.sample([b"v", b"s", b"f", b"t", b"T100", b"T0", b"N0", b"R50", b"q"], draw.randrange(6))
        # The time to live of an item that is made is shown as it was before.
        flags = [flag for flag in flags if flag != b"t" or b"N0" not in flags]
        flags = [flag for flag in flags if flag != b"T0" or b"T100" not in flags]
        return b"mg %s %s\r\n" % (key, b" ".join(flags + echo))
    if kind < 6:
        flags = draw.sample([b"T100", b"F5", b"I", b"q"], draw.randrange(4)) + draw.choice([[], [], [b"MS"], [b"ME"], [b"MA"], [b"MP"], [b"MR"], [b"MX"]])
        if b"\r\n" in value:
            value = b"plain"
        return b"ms %s %d %s\r\n%s\r\n" % (key, len(value), b" ".join(flags + echo), value)
    if kind == 6:
        return b"md %s %s\r\n" % (key, b" ".join(draw.sample([b"I", b"T30", b"q"], draw.randrange(3)) + echo))
    # In memcached a number keeps its marks if it keeps its length: a key of its own, which nothing marks.
    key = b"count"
    flags = draw.sample([b"v", b"D5", b"MI", b"N0", b"J12", b"T100", b"q"], draw.randrange(5))
    if b"N0" in flags:
        # memcached replies to a quiet one that makes the item.
        flags = [flag for flag in flags if flag != b"q"]
    return b"ma %s %s\r\n" % (key, b" ".join(flags + echo))


def binary_request(draw):
    key, value = a_key(draw), a_value(draw)
    quiet, extras = draw.randrange(2), struct.pack(">II", draw.choice([0, 5]), draw.choice([0, 100]))
    kind = draw.randrange(8)
    if kind < 2:
        return packet(draw.choice([0x00, 0x09, 0x0C, 0x0D]), key)
    if kind < 4:
        return packet(draw.choice([0x01, 0x02, 0x03]) + 0x10 * quiet, key, extras, value)
    if kind == 4:
        return packet(draw.choice([0x0E, 0x0F, 0x19, 0x1A]), key, b"", value)
    if kind == 5:
        return packet(0x05, key, struct.pack(">QQI", draw.choice([1, 9]), 5, draw.choice([0, 0xFFFFFFFF])))
    if kind == 6:
        return draw.choice([packet(0x04, key), packet(0x14, key), packet(0x30), packet(0x0A)])
    return packet(draw.choice([0x1C, 0x1D, 0x1E, 0x23, 0x24]), key, struct.pack(">I", draw.choice([0, 100])))


def without_cas(said):
    """The CAS of a reply is another number in each server, and memcached's clock has whole seconds."""
    return re.sub(rb"(?<= t)[1-9]\d*", b"N", re.sub(rb"(?<= c)\d+", b"N", said))


def without_binary_cas(said):
    shown, at = [], 0
    while at + 24 <= len(said):
        length = struct.unpack(">I", said[at + 8 : at + 12])[0]
        shown.append(said[at : at + 16] + said[at + 24 : at + 24 + length])
        at += 24 + length
    return b"".join(shown) + said[at:]


def differential(ours, theirs, request_of, shown, seed, count):
    """Sends the same requests to both servers, one after the other."""
    draw = random.Random(seed)
    for number in range(count):
        request = request_of(draw)
        try:
            mine, other = shown(ours(request)), shown(theirs(request))
        except OSError as error:
            raise AssertionError(f"seed {seed}, request {number}: {request[:200]!r}: {error!r}") from error
        assert mine == other, f"seed {seed}, request {number}: {request[:200]!r}: {mine[:200]!r} in place of {other[:200]!r}"


def split_at_every_byte(port):
    requests = b"flush_all\r\nset a 5 0 3\r\nabc\r\nget a b\r\nms b 2 c\r\nhi\r\nmg b v k Ox\r\nincr a 1\r\ndelete a noreply\r\nversion\r\n"
    whole = text(port)(requests)
    for cut in range(1, len(requests)):
        line = Line(port)
        line.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line.socket.sendall(requests[:cut])
        said = line.until(requests[cut:], b"mn\r\n", b"MN\r\n")
        assert without_cas(said) == without_cas(whole), (cut, said)
    packets = packet(8) + packet(1, b"a", struct.pack(">II", 5, 0), b"abc") + packet(0, b"a") + packet(0x0C, b"none")
    whole = binary(port)(packets)
    for cut in range(1, len(packets)):
        line = Line(port)
        line.socket.sendall(packets[:cut])
        said = line.until(packets[cut:], struct.pack(">BBHBBHI4sQ", 0x80, 0x0A, 0, 0, 0, 0, 0, b"mark", 0), NOOP)
        assert without_binary_cas(said) == without_binary_cas(whole), (cut, said)


def hostile_input_harms_nobody(port):
    said = text(port)
    assert said(b"get " + b"k" * 251 + b"\r\n") == b"CLIENT_ERROR bad command line format\r\n"
    assert said(b"set k 0 0 -5\r\n") == b"CLIENT_ERROR bad command line format\r\n"
    assert said(b"set k 0 0 3\r\nabcde") .startswith(b"CLIENT_ERROR bad data chunk\r\n")
    assert said(b"set old 0 0 1\r\nx\r\n") == b"STORED\r\n"
    assert said(b"set old 0 0 1048577\r\n" + b"x" * 1048577 + b"\r\n") == b"SERVER_ERROR object too large for cache\r\n"
    assert said(b"get old\r\n") == b"END\r\n"
    for bytes_ in (b"x" * 5000, b"\x80" + b"\xff" * 23, b"\x80\x00\xff\xff\x00\x00\x00\x00\x00\x00\x00\x01" + b"\x00" * 12, b"POST / HTTP/1.1\r\n"):
        line = Line(port)
        line.socket.sendall(bytes_)
        while line.socket.recv(1 << 16):
            pass


def main():
    flags = argparse.ArgumentParser()
    flags.add_argument("--unix")
    flags.add_argument("--udp", type=int)
    flags.add_argument("port", type=int)
    flags.add_argument("peer", type=int, nargs="?", default=0)
    # The same requests each time, so that a run tells of the change under test. Other seeds are named by hand.
    flags.add_argument("seed", type=int, nargs="?", default=20260711)
    flags = flags.parse_args()
    port, peer, seed = flags.port, flags.peer, flags.seed
    checks = [pymemcache_works, pylibmc_works, bmemcached_works, split_at_every_byte, hostile_input_harms_nobody]
    places = [(unix_socket_works, flags.unix), (udp_works, flags.udp)]
    if peer:
        same = lambda said: said
        for name, request_of, shown, door in (
            ("text", text_request, same, text),
            ("meta", meta_request, without_cas, text),
            ("binary", binary_request, without_binary_cas, binary),
        ):
            def check(port, request_of=request_of, shown=shown, door=door):
                for each in (port, peer):
                    text(each)(b"flush_all\r\n")
                differential(door(port), door(peer), request_of, shown, seed, 4000)

            check.__name__ = f"differential {name}"
            checks.append(check)
    passed = failed = 0
    for check, place in [(check, port) for check in checks] + [(check, place) for check, place in places if place]:
        try:
            check(place)
            passed += 1
        except ImportError as error:
            print(f"{check.__name__}: left out, {error}")
        except Exception as error:
            print(f"{check.__name__}: {type(error).__name__}: {error}")
            failed += 1
    print(f"memcached clients: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
