"""The signals that ask a command to save and end: the user's, the system's, a cluster's before it stops a job."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

STOPPING = (signal.SIGINT, signal.SIGTERM)
WARNINGS = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def raise_when_asked() -> None:
    """Let each of the signals raise KeyboardInterrupt, as Ctrl-C does."""
    for number in _heeded():
        signal.signal(number, _interrupt)


@contextmanager
def note_when_asked() -> Iterator[threading.Event]:
    """Yield an event that the signals set meanwhile, instead of raising in the middle of whatever goes on."""
    asked = threading.Event()
    before = {number: signal.signal(number, lambda *_: asked.set()) for number in _heeded()}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _heeded() -> list[signal.Signals]:
    """Return the signals to act on: not those ignored from the start (nohup), nor warnings that a launcher acts on."""
    free = [number for number in WARNINGS if signal.getsignal(number) in (signal.SIG_DFL, _interrupt)]
    return [number for number in STOPPING if signal.getsignal(number) != signal.SIG_IGN] + free


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
