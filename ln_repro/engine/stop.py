"""Stop requests to a worker, and its input."""

import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator

from ln_repro.errors import Interrupted

GRACE_SECONDS = 5.0
"""Time that a worker has to save its state after its command has ended."""


class StopRequest:
    """True once the worker should save its state and stop: after a signal, or when its command has ended."""

    def __init__(self) -> None:
        self._requested = False  # a signal handler may deadlock on a `threading.Event`
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def __bool__(self) -> bool:
        return self._requested

    def catch_signals(self) -> None:
        """Treat SIGTERM and SIGINT as stop requests, instead of ending immediately."""
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, self.request)

    def request(self, *_: object) -> None:
        """Request a stop, also as a signal handler."""
        self._requested = True

    def watch_input(self) -> None:
        """Read standard input; its end means that the command has ended: stop, after `GRACE_SECONDS` at the latest."""
        threading.Thread(target=self._watch_input, daemon=True).start()

    def input_lines(self) -> Iterator[str]:
        """Return the lines of standard input, until its end."""
        return iter(self._lines.get, None)

    def _watch_input(self) -> None:
        partial = b""
        while more := os.read(sys.stdin.fileno(), 65536):  # sys.stdin would hold its lock while another thread forks
            *lines, partial = (partial + more).split(b"\n")
            for line in lines:
                self._lines.put(line.decode())
        self._lines.put(None)
        self.request()
        threading.Timer(GRACE_SECONDS, os._exit, [Interrupted.exit_code]).start()
