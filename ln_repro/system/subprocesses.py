"""How this package starts Python processes of its own: the same interpreter, and this very code."""

import os
import signal
import sys

from ln_repro.system.paths import CHECKOUT

SELF = [sys.executable, "-P"]
"""Python that does not look into the working directory, where a user's own ``random.py`` may lie."""


def environment(**extra: str) -> dict[str, str]:
    """Return our environment, with this package on the path wherever we were started from."""
    places = [str(CHECKOUT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(place for place in places if place), **extra}


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def killed(status: int) -> str:
    """Say in words that a process ended by a signal; ``status`` is minus its number, as `subprocess` has it."""
    name = signal.Signals(-status).name
    return f"was killed by {name}" + (", perhaps for want of memory" if -status == signal.SIGKILL else "")
