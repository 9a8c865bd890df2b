"""The console in headless Chromium, over WebDriver.

`console.py HTTP-PORT REDIS-PORT FOLDER`. Leaves screenshots in the folder and prints `console: N passed, M failed`.
"""

import pathlib
import sys
import time
import traceback
import urllib.request

import redis
from browser import ENTER, ESCAPE, TAB, UP, Browser, wait


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
    browser.shows("as in polder cli", "#log")
    browser.type("#line", "hse")
    # The names of commands have come.
    browser.shows("HSET", "#hint")
    browser.press(TAB)
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


def label(name):
    return f"[aria-label='{name}']"


def edits_elements(browser, root, keys):
    keys.hset("cart", mapping={"apples": 3, "pears": 4})
    keys.hexpire("cart", 5000, "apples")
    keys.rpush("queue", "a", "b", "b", "c")
    keys.sadd("colours", "red", "green")
    keys.zadd("scores", {"ann": 1.5, "bob": 2})

    def choose(name):
        browser.run("document.querySelector('#filter').value = ''")
        browser.type("#filter", name + ENTER)
        pick = "const all = document.querySelectorAll('.pick'); if (all[0]?.innerText !== arguments[0]) return false; all[0].click(); return true"
        wait(lambda: browser.run(pick, name), f"the key {name}")
        browser.shows(name, "#detail h2")

    def edit(row, text):
        browser.click(label(f"Edit {row}"))
        browser.clear(label(f"New value of {row}"))
        browser.type(label(f"New value of {row}"), text + ENTER)

    def delete(row):
        browser.click(label(f"Delete {row}"))
        browser.shows(f"Delete {row}?", "#confirm")
        browser.click("#confirm [value=yes]")

    def add(**fields):
        for name, text in fields.items():
            browser.type(label(f"New {name}"), text)
        browser.press(ENTER)

    browser.click("a[href='#keys']")
    choose("cart")
    browser.click(label("Edit the field pears"))
    browser.type(label("New value of the field pears"), "9" + ESCAPE)
    wait(lambda: not browser.run("return document.querySelector('#detail td input')"), "Escape leaves it as it was")
    edit("the field apples", "7 <b>")
    wait(lambda: keys.hget("cart", "apples") == b"7 <b>", "the new value of the field")
    assert keys.httl("cart", "apples")[0] > 4000
    add(field="plums", value="1")
    wait(lambda: keys.hget("cart", "plums") == b"1", "the new field")
    browser.shows("3", "#detail .facts")
    add(field="plums", value="2")
    browser.shows("that field is there already", ".error")
    delete("the field pears")
    wait(lambda: keys.hkeys("cart") == [b"apples", b"plums"], "the field goes")
    browser.keep("keys-edit")
    # What another client has changed meanwhile is not overwritten.
    browser.shows("plums", "#detail table")
    keys.hset("cart", "plums", "theirs")
    edit("the field plums", "mine")
    browser.shows("another client has changed it", ".error")
    browser.keep("keys-conflict")
    browser.shows("theirs", "#detail table")
    assert keys.hget("cart", "plums") == b"theirs"
    choose("queue")
    delete("element 2")
    wait(lambda: keys.lrange("queue", 0, -1) == [b"a", b"b", b"c"], "the second b goes")
    edit("element 0", "first")
    wait(lambda: keys.lindex("queue", 0) == b"first", "the element")
    add(element="last")
    wait(lambda: keys.lindex("queue", -1) == b"last", "the new element")
    choose("colours")
    edit("the member red", "blue")
    wait(lambda: keys.smembers("colours") == {b"blue", b"green"}, "the other member")
    add(member="red")
    wait(lambda: keys.scard("colours") == 3, "the new member")
    delete("the member green")
    wait(lambda: keys.smembers("colours") == {b"blue", b"red"}, "the member goes")
    choose("scores")
    edit("the member bob", "0.5")
    wait(lambda: keys.zscore("scores", "bob") == 0.5, "the score")
    add(member="eve", score="3")
    wait(lambda: keys.zscore("scores", "eve") == 3, "the new member")
    for name in ("ann", "bob", "eve"):
        browser.shows(name, "#detail table")
        delete(f"the member {name}")
        wait(lambda: keys.zscore("scores", name) is None, "the member goes")
    browser.shows("scores is not there any more", "#detail")


def works_by_keyboard(browser, root, keys):
    keys.hset("typed", mapping={"one": 1, "two": 2})
    browser.click("a[href='#slow']")
    browser.tab_to("Keys")
    browser.press(ENTER)
    wait(lambda: browser.focus()[0] == "Pattern of keys", "the focus goes into the page")
    browser.press(*"typed", ENTER)
    browser.shows("1 shown, all that match")
    browser.tab_to("typed")
    browser.press(ENTER)
    browser.shows("two", "#detail")
    browser.tab_to("Edit the field two")
    browser.press(ENTER, "2", ENTER)
    wait(lambda: keys.hget("typed", "two") == b"22", "the value is edited")
    browser.shows("22", "#detail table")
    browser.tab_to("Delete the field one")
    browser.press(ENTER)
    browser.shows("Delete the field one?", "#confirm")
    browser.press(ESCAPE)
    wait(lambda: not browser.run("return document.querySelector('#confirm').open"), "Escape says no")
    assert keys.hexists("typed", "one")
    browser.tab_to("Delete the field one")
    browser.press(ENTER)
    browser.tab_to("Delete")
    browser.press(ENTER)
    wait(lambda: not keys.hexists("typed", "one"), "the field goes")
    # A dialog that is opened again before the event of its last close has come: the answer is that of the second.
    browser.run("""const dialog = document.querySelector("#confirm"), button = document.querySelector("[aria-label='Delete the field two']")
        button.click()
        dialog.close("no")
        button.click()""")
    time.sleep(0.2)
    browser.tab_to("Delete")
    browser.press(ENTER)
    wait(lambda: not keys.exists("typed"), "the last field goes")
    browser.run("document.activeElement.blur()")
    browser.tab_to("Terminal")
    browser.press(ENTER)
    wait(lambda: browser.run("return document.activeElement.id") == "line", "the focus goes into the terminal")
    browser.press(*"GET item:0007", ENTER)
    browser.shows('"7"', "#log")


def paints_at_once(browser, root, keys):
    """Reports the first paint of warm loads beside that of a page of two bytes."""
    figures = {}
    for name, path in (("console", "/console"), ("empty page", "/healthz")):
        browser.go(root + path)
        paints = []
        for _ in range(5):
            browser.ask("/refresh", {})
            script = "return performance.getEntriesByName('first-paint')[0]?.startTime"
            paints.append(wait(lambda: browser.run(script), "a paint"))
        figures[name] = sorted(paints)[2]
    print("first paint, median of 5: " + ", ".join(f"{name} {ms:.0f} ms" for name, ms in figures.items()))
    browser.go(root + "/console")
    browser.type("[name=user]", "admin")
    browser.type("[name=password]", "secret" + ENTER)
    browser.shows("connected", "#status")


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


def analyses_keys(browser, root, keys):
    keys.set("user:2:name", "x" * 5000)
    keys.set("user:2:photo", "x" * 20000)
    keys.set("odd*:1", "x" * 10000)
    browser.click("a[href='#analysis']")
    browser.shows("Nothing is changed.")
    browser.click("#sample")
    browser.shows("All keys of the database.", "#tree")
    browser.shows("item:", "#tree")
    rows = "return [...document.querySelectorAll('#tree > details > summary')].map(row => row.innerText.split('\\n'))"
    named = {row[0]: row[1:] for row in browser.run(rows)}
    assert named["item:"][0] == "300" and named["user:"][0] == "4", named
    browser.shows("Largest of type string", "#largest")
    browser.shows("Largest of type hash", "#largest")
    first = "return document.querySelector('#largest .pick').innerText"
    assert wait(lambda: browser.run(first), "the largest key") in ("user:1", "user:2:photo")
    browser.run("[...document.querySelectorAll('#tree summary')].find(row => row.innerText.startsWith('user:')).click()")
    browser.shows("2:", "#tree")
    browser.keep("analysis")
    # Another separator makes another tree of the same sample.
    browser.clear("#separator")
    browser.type("#separator", "*")
    browser.shows("odd*", "#tree")
    browser.run("[...document.querySelectorAll('#tree summary')].find(row => row.innerText.startsWith('odd*')).click()")
    browser.shows("Show the keys of odd*", "#tree")
    browser.run("[...document.querySelectorAll('#tree .pick')].find(row => row.innerText.startsWith('Show')).click()")
    browser.shows("1 shown, all that match")
    browser.shows("odd*:1")


def shows_the_last_hour(browser, root, keys):
    wait(lambda: len(keys.execute_command("METRICS", "HISTORY")) > 3, "three samples of the server")
    browser.go(root + "/console#live")
    browser.ask("/refresh", {})
    browser.type("[name=user]", "admin")
    browser.type("[name=password]", "secret" + ENTER)
    browser.shows("connected", "#status")
    # The first point is older than the page.
    age = """const chart = document.querySelector("[aria-label='Memory used']"), line = chart?.querySelector(".line")
        if (!line) return false
        const [count, unit] = chart.parentElement.querySelector(".axis span").innerText.split(" ")
        const seconds = count * (unit === "min" ? 60 : 1) * (100 - line.getAttribute("points").split(",")[0]) / 100
        return seconds > performance.now() / 1000 + 5"""
    wait(lambda: browser.run(age), "a point that the server has kept")
    browser.click(".spans button:last-child")
    browser.shows("120 s ago")
    assert browser.run("return document.querySelector(\".spans [aria-pressed='true']\").innerText") == "2 minutes"


def charts_move(browser, root, keys):
    browser.click("a[href='#live']")
    for _ in range(8):
        for n in range(300):
            keys.get(f"item:{n:04}")
        count = browser.run("return document.querySelectorAll('.chart .line').length")
        time.sleep(0.3)
    drawn = "return [...document.querySelectorAll('.chart')].every(chart => [...chart.querySelectorAll('.line')].some(line => line.getAttribute('points').includes(' ')))"
    wait(lambda: browser.run(drawn), "lines")
    browser.shows("operations/s")
    browser.shows("p99, µs")
    assert count > 0
    browser.keep("live-light")
    browser.emulate(prefers_color_scheme="dark")
    browser.keep("live-dark")
    browser.click("a[href='#analysis']")
    browser.click("#sample")
    browser.shows("All keys of the database.", "#tree")
    browser.keep("analysis-dark")
    for page in ("live", "keys", "analysis", "terminal", "clients"):
        browser.size(390, 844)
        browser.click(f"a[href='#{page}']")
        wait(lambda: browser.run("return document.querySelector('nav [aria-current]').hash") == f"#{page}", page)
        if page == "keys":
            browser.shows("board")
            browser.keep("phone-list")
            browser.click(".pick")
            browser.shows("player 0", "#detail")
            is_seen = "return document.querySelector('#detail').getBoundingClientRect().top < innerHeight / 2"
            wait(lambda: browser.run(is_seen), "the chosen key comes into sight")
        if page == "clients":
            browser.shows("this page")
        if page == "analysis":
            browser.click("#sample")
            browser.shows("All keys of the database.", "#tree")
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
    checks = [logs_in, runs_commands, edits_keys, edits_elements, works_by_keyboard, hears_messages, lists_clients, paints_at_once, analyses_keys, charts_move, shows_the_last_hour]
    checks.append(nothing_was_complained_of)
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
