"""The packages @xterm/xterm and @xterm/addon-attach, unmodified, in headless Chromium: a terminal over the sub-protocol `term`.

`xterm.py HTTP-PORT REDIS-PORT PACKAGES FOLDER`. Leaves screenshots in the folder and prints `xterm: N passed, M failed`.
"""

import functools
import http.server
import pathlib
import sys
import threading
import traceback

import redis
from browser import BACKSPACE, CONTROL, ENTER, HOME, LEFT, TAB, UP, Browser, wait

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8"><title>Terminal</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="/@xterm/xterm/css/xterm.css">
<style>body { margin: 8px; background: #000 }</style>
<div id="terminal"></div>
<script src="/@xterm/xterm/lib/xterm.js"></script>
<script src="/@xterm/addon-attach/lib/addon-attach.js"></script>
<script>
  const terminal = new Terminal({ cols: 72, rows: 30 })
  terminal.open(document.getElementById("terminal"))
  terminal.loadAddon(new AttachAddon.AttachAddon(new WebSocket("ws://127.0.0.1:PORT/ws", "term")))
  terminal.focus()
  function rows() {
    const buffer = terminal.buffer.active
    return [...Array(buffer.length).keys()].map(at => buffer.getLine(at).translateToString(true).trimEnd()).join("\\n").trimEnd()
  }
  function cursor() {
    return terminal.buffer.active.cursorX
  }
</script>
"""


class Pages(http.server.SimpleHTTPRequestHandler):
    """The page, and the files of the packages."""

    def __init__(self, *args, port, **options):
        self.port = port
        super().__init__(*args, **options)

    def do_GET(self):
        if self.path != "/":
            return super().do_GET()
        page = PAGE.replace("PORT", self.port).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_):
        pass


def ends(browser, *rows):
    """Waits until these are the last rows of the terminal."""
    expected, shown = "\n".join(rows), ""

    def found():
        nonlocal shown
        shown = browser.run("return rows()")
        return shown.endswith(expected)

    try:
        wait(found, expected)
    except AssertionError:
        raise AssertionError(f"{expected!r} is not the end of {shown!r}") from None


def chord(browser, key):
    """Presses a key with Ctrl."""
    actions = [{"type": "keyDown", "value": CONTROL}, {"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}, {"type": "keyUp", "value": CONTROL}]
    browser.ask("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})


def greets(browser, keys):
    ends(browser, "polder>")


def echoes(browser, keys):
    browser.press(*"set user:1 anna", ENTER)
    ends(browser, "polder> set user:1 anna", "OK", "polder>")
    assert keys.get("user:1") == b"anna"


def calls_up_and_edits(browser, keys):
    browser.press(UP, LEFT, BACKSPACE, *"-mari", ENTER)
    ends(browser, "polder> set user:1 an-maria", "OK", "polder>")
    browser.press(UP, HOME, *"x")
    ends(browser, "polder> xset user:1 an-maria")
    assert browser.run("return cursor()") == len("polder> x")
    chord(browser, "u")
    chord(browser, "k")
    ends(browser, "\npolder>")


def completes(browser, keys):
    browser.press(*"hge", TAB)
    ends(browser, "polder> hget")
    chord(browser, "u")
    browser.press(*"get us", TAB, ENTER)
    ends(browser, "polder> get user:1", '"an-maria"', "polder>")


def tells_errors_and_columns(browser, keys):
    browser.press(*"nope", ENTER)
    ends(browser, "(error) ERR unknown command 'nope', with args beginning with:", "polder>")
    # A line that is longer than a row scrolls: the server has asked how many columns there are.
    browser.press(*"echo ", *("0123456789" * 8))
    ends(browser, "\npolder> " + ("echo " + "0123456789" * 8)[-63:])
    browser.press(ENTER)
    ends(browser, "polder>")


def draws_wide_characters(browser, keys):
    browser.press(*"set \u00e9t\u00e9 \u65e5\u672c", LEFT, LEFT, *"x", ENTER)
    ends(browser, "OK", "polder>")
    assert keys.get("\u00e9t\u00e9") == "x\u65e5\u672c".encode()


def hears_messages(browser, keys):
    browser.press(*"subscribe news", ENTER)
    ends(browser, "3) (integer) 1", "polder>")
    browser.press(*"get us")
    ends(browser, "polder> get us")
    assert keys.publish("news", "hello") == 1
    ends(browser, '1) "message"', '2) "news"', '3) "hello"', "polder> get us")
    browser.press(*"er:1", ENTER)
    ends(browser, "polder> get user:1", '"an-maria"', "polder>")
    browser.keep("xterm")


def closes(browser, keys):
    chord(browser, "d")
    wait(lambda: keys.client_list() and all(row.get("protocol") != "ws-term" for row in keys.client_list()), "the connection ends")


def main():
    port, redis_port, packages, folder = sys.argv[1:5]
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    keys = redis.Redis(port=int(redis_port))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Pages, directory=packages, port=port))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    origin = f"http://127.0.0.1:{server.server_address[1]}"
    keys.config_set("http-cors", origin)
    browser, failed = Browser(folder), 0
    checks = [greets, echoes, calls_up_and_edits, completes, tells_errors_and_columns, draws_wide_characters, hears_messages, closes]
    try:
        browser.go(origin)
        for check in checks:
            try:
                check(browser, keys)
            except Exception:
                failed += 1
                print(f"{check.__name__}:")
                traceback.print_exc(file=sys.stdout)
                browser.keep(f"failed-{check.__name__}")
    finally:
        browser.close()
        keys.config_set("http-cors", "")
        keys.flushall()
        server.shutdown()
    print(f"xterm: {len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
