"""Wait for what happens, not for a time that a slow or busy machine does not keep."""

import time
from collections.abc import Callable
from typing import TypeVar

HANGS_SECONDS = 900
"""Longer than anything takes on any machine: it only ends a test that would wait for ever."""
T = TypeVar("T")


def until(done: Callable[[], T], pause: float = 0.02) -> T:
    """Return what ``done`` returns once that is true."""
    deadline = time.monotonic() + HANGS_SECONDS
    while not (found := done()):
        assert time.monotonic() < deadline, f"not so after {HANGS_SECONDS} seconds"
        time.sleep(pause)
    return found
