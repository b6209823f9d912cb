"""Apply one function to many lines, on several cores if that is faster, in order."""

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
"""Fewest lines for which it is worth starting further interpreters."""
CHUNK = 4_000
"""Lines sent to a worker at once."""

_function: Line


def over_lines(make: Callable[..., Line], arguments: tuple[Any, ...], lines: list[str]) -> list[str]:
    """Return ``make(*arguments)`` applied to every line, in order.

    ``make`` must be importable by name; each worker calls it once, so caches and compiled patterns are not pickled.
    """
    workers = min(8, cores())
    if workers > 1 and len(lines) >= WORTH_IT:
        try:
            return _on_workers(make, arguments, lines, workers)
        except BrokenProcessPool:
            pass  # a worker was killed for memory or could not start; one process needs less
    function = make(*arguments)
    return [function(line) for line in lines]


def _on_workers(make: Callable[..., Line], arguments: tuple[Any, ...], lines: list[str], workers: int) -> list[str]:
    """Return the same as `over_lines`, from a pool of processes."""
    chunks = [lines[start : start + CHUNK] for start in range(0, len(lines), CHUNK)]
    # "spawn": a fork of a process in which torch has started threads may deadlock.
    with ProcessPoolExecutor(workers, get_context("spawn"), _prepare_worker, (make, arguments)) as pool:
        return [line for chunk in pool.map(_chunk, chunks) for line in chunk]


def _prepare_worker(make: Callable[..., Line], arguments: tuple[Any, ...]) -> None:
    """Create the worker's function, ignore interrupts, and end with the parent."""
    global _function
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _function = make(*arguments)


def _end_with_parent() -> None:
    """Exit when the parent ends; a pool's workers would otherwise wait for work forever."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _chunk(lines: list[str]) -> list[str]:
    """Apply the worker's function to some lines."""
    return [_function(line) for line in lines]
