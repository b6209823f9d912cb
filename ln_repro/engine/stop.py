"""How a worker learns that it should save and end."""

import contextlib
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

from ln_repro.errors import Interrupted

GRACE_SECONDS = 5.0
"""How long a worker whose command is gone may go on saving before it ends anyway."""
LISTEN_SECONDS = 0.2
"""How often one that waits to be asked looks whether it is to end."""

INTERRUPTED = Interrupted.exit_code
"""Exit status after a stop that was asked for; the state is saved."""


class StopRequest:
    """Set when the worker is asked to save and end: by a signal, or because its command is gone."""

    def __init__(self) -> None:
        self.requested = threading.Event()
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def __bool__(self) -> bool:
        return self.requested.is_set()

    def catch_signals(self) -> None:
        """Let SIGTERM and SIGINT ask, instead of ending the worker at once."""
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, self._on_signal)

    def watch_command(self) -> None:
        """Take the end of standard input, which the command holds open, for the end of the command."""
        threading.Thread(target=self._watch_command, daemon=True).start()

    def asked(self) -> Iterator[str]:
        """Yield what the command asks for on standard input, a line each, until we are to end."""
        while not self:
            with contextlib.suppress(queue.Empty):
                yield self._lines.get(timeout=LISTEN_SECONDS)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.requested.set()

    def _watch_command(self) -> None:
        heard = b""
        while more := os.read(sys.stdin.fileno(), 65536):
            *lines, heard = (heard + more).split(b"\n")
            for line in lines:
                self._lines.put(line.decode())
        self.requested.set()
        threading.Timer(GRACE_SECONDS, os._exit, [INTERRUPTED]).start()
