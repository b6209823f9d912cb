"""Stop requests to a worker, and its input."""

import contextlib
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator

from ln_repro.errors import Interrupted

GRACE_SECONDS = 5.0  # time that a worker has to save its state after its command has ended
POLL_SECONDS = 0.2


class StopRequest:
    """True once the worker should save its state and stop: after a signal, or when its command has ended."""

    def __init__(self) -> None:
        self._requested = False  # a signal handler may deadlock on a `threading.Event`
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()

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
        """Yield the lines of standard input until a stop is requested."""
        while not self:
            with contextlib.suppress(queue.Empty):
                yield self._lines.get(timeout=POLL_SECONDS)

    def _watch_input(self) -> None:
        partial = b""
        while more := os.read(sys.stdin.fileno(), 65536):  # sys.stdin would hold its lock while another thread forks
            *lines, partial = (partial + more).split(b"\n")
            for line in lines:
                self._lines.put(line.decode())
        self.request()
        threading.Timer(GRACE_SECONDS, os._exit, [Interrupted.exit_code]).start()
