"""Wait for what happens, not for a time that a slow or busy machine does not keep; and find processes."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil

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


def processes(folder: Path, *kinds: str) -> dict[int, str]:
    """Return the command lines, with one of some words, of the processes whose environment names a folder, by id."""
    found = {}
    for process in psutil.process_iter(["cmdline", "environ"]):
        line, environment = " ".join(process.info["cmdline"] or []), process.info["environ"] or {}
        if any(kind in line for kind in kinds) and any(str(folder) in value for value in environment.values()):
            found[process.pid] = line
    return found
