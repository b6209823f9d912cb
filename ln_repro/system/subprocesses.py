"""Helpers to start Python processes with the same interpreter and code."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ln_repro.system.paths import CHECKOUT

SELF = [sys.executable, "-P"]
"""Python without the working directory on its path, which may contain modules such as a user's ``random.py``."""


def environment(**extra: str) -> dict[str, str]:
    """Return the environment of this process, with this package on the Python path and output in UTF-8 for its logs."""
    places = [str(CHECKOUT), os.environ.get("PYTHONPATH", "")]
    ours = {
        "PYTHONPATH": os.pathsep.join(place for place in places if place),
        "PYTHONIOENCODING": "utf-8:backslashreplace",
    }
    return {**os.environ, **ours, **extra}


def start_command(
    arguments: Sequence[str], log: Path, variables: Mapping[str, str], inherit: Sequence[int] = ()
) -> "subprocess.Popen[bytes]":
    """Start `ln-repro` in a session of its own, which does not receive our signals, and append its output to a log.

    It has additional environment ``variables``, and inherits the open files with the descriptors ``inherit``.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            [*SELF, "-m", "ln_repro.cli", *arguments], env=environment(**variables),
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True, pass_fds=inherit,
        )  # fmt: skip


def kill_children(word: str) -> None:
    """Kill the processes that this one has started and whose name contains a word."""
    import psutil

    for process in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if word in process.name():
                process.kill()


def cores() -> int:
    """Return the number of cores that this process may use, also in a container with a limit on its CPU time."""
    import joblib  # slow

    return int(joblib.cpu_count())


def killed(status: int) -> str:
    """Describe how a process was killed; ``status`` is the negative number of the signal, as in `subprocess`."""
    name = next((number.name for number in signal.Signals if number == -status), f"signal {-status}")
    return f"was killed by {name}" + (", possibly out of memory" if -status == signal.SIGKILL else "")
