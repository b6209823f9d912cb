"""The signals that ask a command to save and end: the user's, the system's, a cluster's before it stops a job."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Of these, one that was ignored when we were started (nohup) stays ignored."""


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
    return [number for number in STOPPING if signal.getsignal(number) != signal.SIG_IGN]


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
