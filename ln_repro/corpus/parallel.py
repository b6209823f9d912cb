"""Apply a function to many items, on several cores if that is faster."""

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

from ln_repro.system.subprocesses import cores

Item = TypeVar("Item")
Result = TypeVar("Result")


def apply(function: Callable[[Item], Result], items: Iterable[Item], several: bool) -> Iterator[Result]:
    """Yield ``function(item)`` for every item, in order; only a few items and results are in memory at once.

    Args:
        function: importable by name, so that it can be sent to other processes.
        several: use all cores, which takes about a second to start.
    """
    if not several or cores() == 1:
        yield from map(function, items)
        return
    # "spawn": a fork of a process in which torch has started threads may deadlock.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(cores(), context, _prepare_worker)
    pending: deque[tuple[Item, Future[Result]]] = deque()
    others = multiprocessing.active_children()
    try:
        for item in items:
            if len(pending) >= 2 * cores():
                yield _result(function, *pending.popleft())
            pending.append((item, _submitted(pool, function, item)))
        while pending:
            yield _result(function, *pending.popleft())
    except BaseException:
        for child in set(multiprocessing.active_children()) - set(others):
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _submitted(pool: ProcessPoolExecutor, function: Callable[[Item], Result], item: Item) -> "Future[Result]":
    """Submit an item; if the pool is broken, `_result` computes it in this process."""
    try:
        return pool.submit(function, item)
    except BrokenProcessPool as error:
        failed: Future[Result] = Future()
        failed.set_exception(error)
        return failed


def _result(function: Callable[[Item], Result], item: Item, future: "Future[Result]") -> Result:
    """Return the result for an item; compute it here if a worker ran out of memory or could not start."""
    try:
        return future.result()
    except BrokenProcessPool:
        return function(item)


def _prepare_worker() -> None:
    """Initialise a worker: ignore Ctrl-C, and exit when the parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Exit when the parent has died; otherwise, the worker would wait for tasks forever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
