"""The console in headless Chromium, over WebDriver.

`console.py HTTP-PORT REDIS-PORT FOLDER`. Leaves screenshots in the folder and prints `console: N passed, M failed`.
"""

import base64
import json
import pathlib
import subprocess
import sys
import time
import traceback
import urllib.error
import urllib.request

import redis

PATIENCE = 30
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
ENTER, TAB, UP = "\ue007", "\ue004", "\ue013"


class Browser:
    """One browser, driven by a chromedriver of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        for line in self.driver.stdout:
            if "successfully on port " in line:
                self.root = "http://127.0.0.1:" + line.split("on port ")[1].strip(" .\n")
                break
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,900"]
        options = {"binary": "/usr/bin/chromium-headless-shell", "args": flags}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        self.session = ""
        self.session = "/session/" + self.ask("/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.root + self.session + path, data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"].split("\n")[0]) from None

    def close(self):
        # Without this the browser outlives its driver, and its page connects to the server of the next run.
        try:
            self.ask("/goog/cdp/execute", {"cmd": "Browser.close", "params": {}})
        except RuntimeError:
            # It is gone before it can say so.
            pass
        finally:
            self.driver.terminate()
            self.driver.wait()

    def go(self, url):
        self.ask("/url", {"url": url})

    def run(self, script, *args):
        return self.ask("/execute/sync", {"script": script, "args": list(args)})

    def find(self, selector):
        return wait(lambda: self.ask("/elements", {"using": "css selector", "value": selector}), selector)[0][ELEMENT]

    def click(self, selector):
        self.ask(f"/element/{self.find(selector)}/click", {})

    def type(self, selector, text):
        self.ask(f"/element/{self.find(selector)}/value", {"text": text})

    def clear(self, selector):
        self.ask(f"/element/{self.find(selector)}/clear", {})

    def shows(self, text, selector="main"):
        def found():
            return text in self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

        wait(found, f"{text!r} in {selector}")

    def emulate(self, **media):
        features = [{"name": name.replace("_", "-"), "value": value} for name, value in media.items()]
        self.ask("/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {"features": features}})

    def size(self, width, height):
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.ask("/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": metrics})

    def keep(self, name):
        (self.folder / f"{name}.png").write_bytes(base64.b64decode(self.ask("/screenshot")))


def wait(found, what):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        value = found()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"it did not come: {what}")


def fill(keys):
    keys.flushall()
    keys.set("user:1:name", "Ann", ex=5000)
    keys.hset("user:1", mapping={f"field:{n}": f"value {n}" for n in range(250)})
    keys.rpush("jobs", *[f"job {n}" for n in range(30)])
    keys.sadd("tags", "red", "green", b"\xff\x00")
    keys.zadd("board", {f"player {n}": n * 1.5 for n in range(12)})
    keys.xadd("events", {"kind": "start", "by": "ann"})
    keys.set(b"raw\xff", b"\x00\xffbytes")
    for n in range(300):
        keys.set(f"item:{n:04}", n)


def logs_in(browser, root, keys):
    keys.acl_setuser("admin", enabled=True, passwords=["+secret"], categories=["+@all"], keys=["*"], channels=["*"])
    keys.acl_setuser("default", enabled=True, reset_passwords=True, passwords=["+other"], categories=["+@all"], keys=["*"], channels=["*"])
    keys.connection_pool.connection_kwargs.update(username="admin", password="secret")
    browser.go(root + "/console")
    browser.type("[name=user]", "admin")
    browser.type("[name=password]", "wrong" + ENTER)
    browser.shows("WRONGPASS", "#login")
    browser.keep("login")
    browser.clear("[name=password]")
    browser.type("[name=password]", "secret" + ENTER)
    browser.shows("connected", "#status")


def runs_commands(browser, root, keys):
    browser.click("a[href='#terminal']")
    browser.type("#line", "hse" + TAB)
    browser.shows("HSET", "#hint")
    browser.shows("Creates or modifies the value of a field in a hash.", "#hint")
    browser.clear("#line")
    browser.type("#line", "HGET user:1 field:7" + ENTER)
    browser.shows('"value 7"', "#log")
    browser.type("#line", "SUBSCRIBE news" + ENTER)
    browser.shows('1) "subscribe"', "#log")
    assert wait(lambda: keys.publish("news", "in the terminal"), "a subscriber") == 1
    browser.shows('"in the terminal"', "#log")
    browser.type("#line", "NOPE <b>x</b>" + ENTER)
    browser.shows("(error) ERR unknown command 'NOPE'", "#log")
    browser.type("#line", UP)
    assert browser.run("return document.querySelector('#line').value") == "NOPE <b>x</b>"
    browser.keep("terminal")


def edits_keys(browser, root, keys):
    browser.click("a[href='#keys']")
    browser.shows("user:1:name")
    browser.type("#filter", "user:" + ENTER)
    browser.shows("2 shown, all that match")
    pick = "return [...document.querySelectorAll('.pick')].find(pick => pick.innerText === arguments[0])?.click() === undefined"

    def choose(name):
        browser.shows(name)
        assert browser.run(pick, name)

    choose("user:1:name")
    browser.shows("Expires in", "#detail")
    browser.clear("#value")
    browser.type("#value", "Ann <img src=x>")
    browser.click("#save")
    wait(lambda: keys.get("user:1:name") == b"Ann <img src=x>", "the new value")
    assert keys.ttl("user:1:name") > 4000
    browser.keep("keys-string")
    choose("user:1")
    browser.shows("field:", "#detail")
    browser.keep("keys-hash")
    browser.clear("#filter")
    for name, text in (("jobs", "job 29"), ("tags", "\\xff\\x00"), ("board", "16.5"), ("events", "kind: start"), ("raw\\xff", "not edited")):
        browser.run("document.querySelector('#filter').value = ''")
        browser.type("#filter", name.split("\\")[0] + ENTER)
        choose(name)
        browser.shows(text if text != "not edited" else "they are shown", "#detail")
    browser.type("[aria-label='New name']", "renamed")
    browser.run("[...document.querySelectorAll('#detail button')].find(one => one.innerText === 'Rename').click()")
    browser.shows("renamed", "#detail")
    assert keys.get("renamed") == b"\x00\xffbytes"
    browser.run("document.querySelector('#detail .danger').click()")
    browser.shows("Delete the key renamed?", "#confirm")
    browser.click("#confirm [value=yes]")
    wait(lambda: not keys.exists("renamed"), "the key goes")


def hears_messages(browser, root, keys):
    browser.click("a[href='#channels']")
    browser.type("#channel", "orders.*" + ENTER)
    browser.shows("Subscribed: orders.*")
    keys.publish("orders.eu", "4711 <script>")
    browser.shows("4711 <script>", "#messages")
    browser.keep("channels")


def lists_clients(browser, root, keys):
    victim = keys.connection_pool.make_connection()
    victim.connect()
    victim.send_command("CLIENT", "SETNAME", "victim")
    victim.read_response()
    victim.send_command("CLIENT", "ID")
    number = victim.read_response()
    browser.click("a[href='#clients']")
    browser.shows("victim")
    browser.keep("clients")
    browser.click(f"[aria-label='Kill client {number}']")
    browser.click("#confirm [value=yes]")
    wait(lambda: all(row["id"] != str(number) for row in keys.client_list()), "the client goes")
    keys.config_set("slowlog-log-slower-than", 0)
    keys.get("item:0001")
    keys.config_set("slowlog-log-slower-than", 10000)
    browser.click("a[href='#slow']")
    browser.shows("GET item:0001")
    browser.keep("slow")


def charts_move(browser, root, keys):
    browser.click("a[href='#live']")
    for _ in range(8):
        for n in range(300):
            keys.get(f"item:{n:04}")
        count = browser.run("return document.querySelectorAll('.chart .line').length")
        time.sleep(0.3)
    wait(lambda: browser.run("return [...document.querySelectorAll('.chart .line')].every(line => line.getAttribute('points').includes(' '))"), "lines")
    browser.shows("operations/s")
    assert count > 0
    browser.keep("live-light")
    browser.emulate(prefers_color_scheme="dark")
    browser.keep("live-dark")
    for page in ("live", "keys", "terminal", "clients"):
        browser.size(390, 844)
        browser.click(f"a[href='#{page}']")
        wait(lambda: browser.run("return document.querySelector('nav [aria-current]').hash") == f"#{page}", page)
        if page == "keys":
            browser.shows("board")
        if page == "clients":
            browser.shows("this page")
        browser.keep(f"phone-{page}")
        wide = browser.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{page} is {wide} pixels wider than a phone"


def nothing_was_complained_of(browser, root, keys):
    log = [line["message"] for line in browser.ask("/se/log", {"type": "browser"}) if line["level"] == "SEVERE"]
    assert not log, log
    with urllib.request.urlopen(root + "/console") as response:
        policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy, policy


def main():
    root, folder = f"http://127.0.0.1:{sys.argv[1]}", pathlib.Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    keys = redis.Redis(port=int(sys.argv[2]))
    fill(keys)
    browser, failed = Browser(folder), 0
    checks = [logs_in, runs_commands, edits_keys, hears_messages, lists_clients, charts_move, nothing_was_complained_of]
    try:
        for check in checks:
            try:
                check(browser, root, keys)
            except Exception:
                failed += 1
                print(f"{check.__name__}:")
                traceback.print_exc(file=sys.stdout)
                browser.keep(f"failed-{check.__name__}")
    finally:
        browser.close()
    print(f"console: {len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
