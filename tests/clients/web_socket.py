"""The client of the package `websockets`, unmodified, against a Polder server.

`web_socket.py HTTP-PORT`. Prints `web socket clients: N passed, M failed`.
"""

import json
import sys
import traceback

from websockets.exceptions import ConnectionClosedOK, InvalidStatus
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory
from websockets.sync.client import connect


def opened(port, protocol, **options):
    return connect(f"ws://127.0.0.1:{port}/ws", subprotocols=[protocol], **options)


def asked(socket, *words):
    socket.send(json.dumps(words))
    return json.loads(socket.recv(timeout=30))


def json_works(port):
    with opened(port, "json") as socket:
        assert socket.subprotocol == "json"
        assert asked(socket, "SET", "ws:a", "é") == {"reply": "OK"}
        assert asked(socket, "GET", "ws:a") == {"reply": "é"}
        assert asked(socket, "LPUSH", "ws:a", 1)["error"].startswith("WRONGTYPE")
        assert socket.ping(b"there").wait(30)
        socket.send(iter(['["ECHO",', '"in parts"]']))
        assert json.loads(socket.recv(timeout=30)) == {"reply": "in parts"}


def messages_come(port):
    with opened(port, "json") as hears, opened(port, "json") as says:
        assert asked(hears, "SUBSCRIBE", "ws:news") == {"push": ["subscribe", "ws:news", 1]}
        assert asked(says, "PUBLISH", "ws:news", "hi") == {"reply": 1}
        assert json.loads(hears.recv(timeout=30)) == {"push": ["message", "ws:news", "hi"]}


def term_works(port):
    with opened(port, "term") as socket:
        socket.send("SET ws:b 'x y'")
        assert socket.recv(timeout=30) == "OK\n"
        socket.send("INFO server")
        assert socket.recv(timeout=30).startswith("# Server")


def resp_works(port):
    with opened(port, "resp") as socket:
        socket.send(b"*1\r\n$4\r\nPING\r\n")
        assert socket.recv(timeout=30) == b"+PONG\r\n"


def compression_works(port):
    with opened(port, "json", compression=None, extensions=[ClientPerMessageDeflateFactory()]) as socket:
        assert [extension.name for extension in socket.protocol.extensions] == ["permessage-deflate"]
        text = "0123456789" * 20_000
        assert asked(socket, "SET", "ws:c", text) == {"reply": "OK"}
        assert asked(socket, "GET", "ws:c") == {"reply": text}
        # Messages are compressed one by one.
        assert asked(socket, "GET", "ws:c") == {"reply": text}


def it_is_refused_and_closed(port):
    for options in ({"subprotocols": ["chat"]}, {"subprotocols": ["json"], "origin": "https://evil.example"}):
        try:
            connect(f"ws://127.0.0.1:{port}/ws", **options)
        except InvalidStatus as refused:
            assert refused.response.status_code == (403 if "origin" in options else 400)
        else:
            raise AssertionError(options)
    with opened(port, "json") as socket:
        assert asked(socket, "QUIT") == {"reply": "OK"}
        try:
            socket.recv(timeout=30)
        except ConnectionClosedOK as closed:
            assert closed.rcvd.code == 1000
        else:
            raise AssertionError("it is open")


def main():
    checks = [json_works, messages_come, term_works, resp_works, compression_works, it_is_refused_and_closed]
    failed = 0
    for check in checks:
        try:
            check(int(sys.argv[1]))
        except Exception:
            failed += 1
            print(f"{check.__name__}:")
            traceback.print_exc(file=sys.stdout)
    print(f"web socket clients: {len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
