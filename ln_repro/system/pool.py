"""Apply a function to many items, in several processes."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from typing import TypeVar

from ln_repro.errors import LnReproError
from ln_repro.system.subprocesses import cores

Item = TypeVar("Item")
Result = TypeVar("Result")


def apply(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Yield ``function(item)`` for every item, in order, computed on all cores, which takes about a second to start.

    Only a few items and results are in memory at once. ``function`` is sent to the processes by its name.

    Raises:
        LnReproError: a process was killed.
    """
    if cores() == 1:
        yield from map(function, items)
        return
    # "spawn": a fork of a process in which torch has started threads may deadlock.
    pool = ProcessPoolExecutor(cores(), multiprocessing.get_context("spawn"), _watch_parent)
    others = multiprocessing.active_children()
    pending: deque[Future[Result]] = deque()
    try:
        for item in items:
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited: workers ignore Ctrl-C
            try:
                pending.append(pool.submit(function, item))
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            if len(pending) > 2 * cores():
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BaseException as error:
        for child in set(multiprocessing.active_children()) - set(others):
            child.terminate()
        if isinstance(error, BrokenProcessPool):
            raise LnReproError("a process was killed, possibly out of memory; run the command again") from None
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _watch_parent() -> None:
    """Let a worker exit when the parent dies; otherwise, it would wait for tasks forever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=lambda: (wait([parent.sentinel]), os._exit(1)), daemon=True).start()
