"""Progress on standard error: a live view on a terminal, and lines that stay."""

import contextlib
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.live import Live

Report = Callable[[str], None]  # a function for messages to the user
SECONDS = 30.0  # time between two lines where there is no terminal


def plural(number: int, noun: str) -> str:
    """Return a number of things: ``1 run``, ``2 runs``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


class Screen(Live):
    """A live view, shown only on a terminal, above which permanent lines are printed.

    ``view`` are arguments of rich's `Live`; the console is standard error by default.
    """

    def __init__(self, console: Console | None = None, **view: Any) -> None:
        super().__init__(console=console or Console(stderr=True, highlight=False), transient=True, **view)

    def say(self, message: str) -> None:
        """Print a permanent line."""
        self.console.print(message, markup=False, emoji=False, soft_wrap=True)


@contextlib.contextmanager
def progress(step: str, total: int | None, report: Report, unit: str = "pairs") -> Iterator[Callable[[int], None]]:
    """Report a step and its progress, rate and time left; yield a function that takes the number of units done.

    A ``total`` of None is unknown.
    """
    report(step if total is None else f"{step} {total} {unit}")
    console = Console(stderr=True, highlight=False)
    begin = last = time.monotonic()
    done = 0

    def line() -> str:
        rate = done / max(time.monotonic() - begin, 1e-3)
        if total is None:
            return f"{step} {done:,} {unit}, {rate:,.1f}/s"
        left = timedelta(seconds=round(max(total - done, 0) / rate)) if done else "?"
        return f"{step} {done:,} of {total:,} {unit}, {rate:,.1f}/s, {left} left"

    with console.status(line()) as status:  # nothing unless it is a terminal

        def advance(count: int) -> None:
            nonlocal done, last
            done += count
            status.update(line())
            if not console.is_terminal and time.monotonic() - last > SECONDS:
                last = time.monotonic()
                report(line())

        yield advance
