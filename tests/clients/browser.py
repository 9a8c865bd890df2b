"""A headless Chromium, over WebDriver."""

import base64
import json
import subprocess
import time
import urllib.error
import urllib.request

PATIENCE = 30
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
ENTER, TAB, UP, ESCAPE = "\ue007", "\ue004", "\ue013", "\ue00c"
LEFT, RIGHT, HOME, END, BACKSPACE, CONTROL = "\ue012", "\ue014", "\ue011", "\ue010", "\ue003", "\ue009"


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

    def at(self, selector, what, body):
        """Does something with an element; where the page has replaced it meanwhile, with the one in its place."""
        def done():
            try:
                self.ask(f"/element/{self.find(selector)}/{what}", body)
            except RuntimeError as error:
                if "stale element" not in str(error):
                    raise
                return False
            return True

        wait(done, f"{what} of {selector}")

    def click(self, selector):
        self.at(selector, "click", {})

    def type(self, selector, text):
        self.at(selector, "value", {"text": text})

    def press(self, *keys):
        """Presses keys, whatever has the focus."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.ask("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def focus(self):
        """What has the focus: its label or its text; and whether that can be seen."""
        script = """const it = document.activeElement, style = getComputedStyle(it)
            return [it.ariaLabel || it.innerText.trim(), style.outlineStyle !== "none" && style.outlineWidth !== "0px"]"""
        return self.run(script)

    def tab_to(self, wanted):
        """Goes on with the Tab key until something of this name has the focus."""
        for _ in range(80):
            name, is_seen = self.focus()
            if name == wanted:
                assert is_seen, f"the focus on {wanted} is not shown"
                return
            self.press(TAB)
        raise AssertionError(f"Tab does not come to {wanted}")

    def clear(self, selector):
        self.at(selector, "clear", {})

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
