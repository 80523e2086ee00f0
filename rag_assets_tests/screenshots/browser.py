"""A headless Chromium, driven by its DevTools protocol: it waits for what a page shows, clicks, and takes pictures."""

import base64
import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MISSING = "Chromium is not installed (Debian: apt install chromium)"

PATIENCE_SECONDS = 60
_LOOK_SECONDS = 0.25
# A page has come to rest when nothing of it changed for so long.
_REST_SECONDS = 1.5
_LONGEST_REST_SECONDS = 10
_OPTIONS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--remote-debugging-port=0"),
]

# The smallest element that shows the text.
_CLICK = """(text => {
  const shown = [...document.querySelectorAll("button, a, [role=tab], [role=button], span, div")]
    .filter(one => one.innerText && one.innerText.trim() === text && one.getClientRects().length);
  const one = shown.at(-1);
  if (one) one.click();
  return Boolean(one);
})(%s)"""


class Browser:
    """One tab."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._sent = 0
        self._send("Page.enable")

    def _send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._sent += 1
        self._connection.send(json.dumps({"id": self._sent, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._connection.recv(PATIENCE_SECONDS))
            if message.get("id") == self._sent:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                result: dict[str, Any] = message["result"]
                return result

    def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        return self._send("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def open(self, url: str, *, width: int, height: int) -> None:
        """Go to `url`, in a window of so many pixels."""
        self._send("Page.navigate", url="about:blank")
        self._send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self._send("Page.navigate", url=url)

    def text(self) -> str:
        """What the page shows."""
        return str(self.evaluate("document.body ? document.body.innerText : ''"))

    def wait_for(self, texts: Sequence[str]) -> None:
        """Wait until the page shows all of `texts` and rests, or a little longer where it never does: a clock ticks.

        Raises `TimeoutError` with the texts that are missing.
        """
        started = changed = time.monotonic()
        shown, complete = "", None
        while (now := time.monotonic()) - started < PATIENCE_SECONDS:
            if (text := self.text()) != shown:
                shown, changed = text, now
            complete = (complete or now) if all(one in shown for one in texts) else None
            if complete and (now - changed > _REST_SECONDS or now - complete > _LONGEST_REST_SECONDS):
                return
            time.sleep(_LOOK_SECONDS)
        missing = [one for one in texts if one not in shown]
        raise TimeoutError(f"{self.evaluate('location.href')} does not show {missing}, but:\n{shown}")

    def click(self, text: str) -> None:
        """Click on what shows exactly `text`. Raises `LookupError` when nothing does."""
        if not self.evaluate(_CLICK % json.dumps(text)):
            raise LookupError(f"{self.evaluate('location.href')} shows nothing to click that says {text!r}")

    def picture(self) -> bytes:
        """The window as a PNG."""
        return base64.b64decode(self._send("Page.captureScreenshot", format="png")["data"])


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A browser with a new `profile`, until the context ends. Raises `FileNotFoundError` where there is no Chromium."""
    if CHROMIUM is None:
        raise FileNotFoundError(MISSING)
    command = [CHROMIUM, *_OPTIONS, f"--user-data-dir={profile}", "about:blank"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with connect(_address(profile), max_size=None) as connection:
            yield Browser(connection)
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def _address(profile: Path) -> str:
    """The address of the tab, which the browser tells in a file of its profile once it runs."""
    told, end = profile / "DevToolsActivePort", time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        try:
            port = told.read_text().split()[0]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=10) as response:
                tabs = [tab for tab in json.load(response) if tab["type"] == "page"]
            return str(tabs[0]["webSocketDebuggerUrl"])
        except (OSError, IndexError):
            time.sleep(_LOOK_SECONDS)
    raise TimeoutError(f"Chromium did not start within {PATIENCE_SECONDS} s")
