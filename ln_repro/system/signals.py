"""The signals that make a command save its state and stop: Ctrl-C, SIGTERM, and the warnings of a cluster."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

STOPPING = (signal.SIGINT, signal.SIGTERM)
WARNINGS = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def raise_on_stop_signals() -> None:
    """Raise KeyboardInterrupt on each of the signals, as on Ctrl-C."""
    for number in _stop_signals():
        signal.signal(number, _interrupt)


@contextmanager
def record_stop_signals() -> Iterator[list[int]]:
    """Yield a list to which the signals are added, instead of raising an exception; only the main thread receives any.

    A `threading.Event` would not do: setting one blocks for ever if the signal has interrupted a use of the same event.
    """
    received: list[int] = []
    before = {number: signal.signal(number, lambda number, _: received.append(number)) for number in _stop_signals()}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop_signals() -> list[signal.Signals]:
    """Return the stop signals, except those that are ignored (nohup) and warnings that a launcher handles itself."""
    free = [number for number in WARNINGS if signal.getsignal(number) in (signal.SIG_DFL, _interrupt)]
    if threading.current_thread() is not threading.main_thread():
        return []
    return [number for number in STOPPING if signal.getsignal(number) != signal.SIG_IGN] + free


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
