"""Start Python processes with the same interpreter and this package's code."""

import os
import signal
import sys

from ln_repro.system.paths import CHECKOUT

SELF = [sys.executable, "-P"]
"""Python without the working directory on its path, where a user may have a ``random.py`` of their own."""


def environment(**extra: str) -> dict[str, str]:
    """Return the environment of this process, with this package on the Python path."""
    places = [str(CHECKOUT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(place for place in places if place), **extra}


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def killed(status: int) -> str:
    """Describe the end of a process by a signal; ``status`` is its negative number, as in `subprocess`."""
    name = signal.Signals(-status).name
    return f"was killed by {name}" + (", possibly out of memory" if -status == signal.SIGKILL else "")
