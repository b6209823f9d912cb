"""How a worker learns that it should save and end."""

import os
import signal
import sys
import threading
from types import FrameType

from ln_repro.errors import Interrupted

GRACE_SECONDS = 5.0
"""How long a worker whose command is gone may go on saving before it ends anyway."""

INTERRUPTED = Interrupted.exit_code
"""Exit status after a stop that was asked for; the state is saved."""


class StopRequest:
    """Set when the worker is asked to save and end: by a signal, or because its command is gone."""

    def __init__(self) -> None:
        self.requested = threading.Event()

    def __bool__(self) -> bool:
        return self.requested.is_set()

    def catch_signals(self) -> None:
        """Let SIGTERM and SIGINT ask, instead of ending the worker at once."""
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, self._on_signal)

    def watch_command(self) -> None:
        """Take the end of standard input, which the command holds open, for the end of the command."""
        threading.Thread(target=self._watch_command, daemon=True).start()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.requested.set()

    def _watch_command(self) -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        self.requested.set()
        threading.Timer(GRACE_SECONDS, os._exit, [INTERRUPTED]).start()
