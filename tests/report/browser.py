"""A headless browser for tests: Chromium, driven over a pipe by its own protocol, so that nothing else is needed."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.waiting import HANGS_SECONDS

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
         "--disable-background-networking", "--hide-scrollbars", "--remote-debugging-pipe")  # fmt: skip
SHELL = 'exec 3<&$1 4>&$2; shift 2; exec "$@"'
"""The browser reads commands from descriptor 3 and writes answers to 4."""


def find_browser() -> str | None:
    """Return the path of a browser, None if there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One tab: opens a file, runs scripts in it, and keeps the events that the browser reports."""

    def __init__(self, commands: int, answers: int) -> None:
        self.commands, self.answers = os.fdopen(commands, "wb", 0), answers
        self.rest, self.number, self.session = b"", 0, {}
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command and return its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters, **self.session}
        self.commands.write(json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self.number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, path: Path) -> None:
        """Load a file and wait until it is there."""
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not self.reported("Page.loadEventFired"):
            self.events.append(self._next())

    def run(self, script: str) -> Any:
        """Return the value of a script, awaited."""
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def look(self, width: int, dark: bool = False) -> None:
        """Set the size of the window, and whether the reader likes it dark; wait until it is drawn."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.settle()

    def settle(self) -> None:
        """Wait until what is due is drawn."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 60))))")

    def reported(self, method: str) -> list[dict[str, Any]]:
        """Return the parameters of all events of one kind."""
        return [event["params"] for event in self.events if event.get("method") == method]

    def complaints(self) -> list[dict[str, Any]]:
        """Return the errors and warnings of the page."""
        said = [
            one for one in self.reported("Runtime.consoleAPICalled") if one["type"] in ("error", "warning", "assert")
        ]
        return said + self.reported("Runtime.exceptionThrown") + self.reported("Log.entryAdded")

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            more = os.read(self.answers, 1 << 20)
            assert more, "the browser has ended"
            self.rest += more
        line, _, self.rest = self.rest.partition(b"\0")
        return json.loads(line)  # type: ignore[no-any-return]


@contextmanager
def browser(program: str, profile: Path) -> Iterator[Browser]:
    """Start a browser with a profile of its own; end it."""
    read_commands, commands = os.pipe()
    answers, write_answers = os.pipe()
    given = (read_commands, write_answers)
    command = ["bash", "-c", SHELL, "browser", *map(str, given), program, *FLAGS, f"--user-data-dir={profile}"]
    with subprocess.Popen(command, pass_fds=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        for end in given:
            os.close(end)
        try:
            yield Browser(commands, answers)
        finally:
            process.terminate()
            process.wait(HANGS_SECONDS)
