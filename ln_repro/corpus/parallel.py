"""Apply a function to many lines, on several cores if that is faster."""

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from typing import Any

from ln_repro.system.subprocesses import cores

Line = Callable[[str], str]
WORTH_IT = 60_000
"""Minimum number of lines for which starting worker processes saves time."""
CHUNK = 4_000
"""Number of lines sent to a worker at once."""

_function: Line


def over_lines(make: Callable[..., Line], arguments: tuple[Any, ...], lines: list[str]) -> list[str]:
    """Return ``make(*arguments)`` applied to every line, in order.

    ``make`` must be importable by name; each worker calls it once, so caches and compiled patterns are not pickled.
    """
    workers = min(8, cores())
    if workers > 1 and len(lines) >= WORTH_IT:
        try:
            chunks = [lines[start : start + CHUNK] for start in range(0, len(lines), CHUNK)]
            # "spawn": a fork of a process in which torch has started threads may deadlock.
            with ProcessPoolExecutor(workers, get_context("spawn"), _prepare_worker, (make, arguments)) as pool:
                return [line for chunk in pool.map(_chunk, chunks) for line in chunk]
        except BrokenProcessPool:
            pass  # a worker ran out of memory or could not start; a single process needs less
    function = make(*arguments)
    return [function(line) for line in lines]


def _prepare_worker(make: Callable[..., Line], arguments: tuple[Any, ...]) -> None:
    """Initialise a worker: create its function, ignore Ctrl-C, and exit when the parent does."""
    global _function
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _function = make(*arguments)


def _end_with_parent() -> None:
    """Exit when the parent has died; otherwise, the worker would wait for tasks forever."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _chunk(lines: list[str]) -> list[str]:
    """Apply the worker's function to some lines."""
    return [_function(line) for line in lines]
