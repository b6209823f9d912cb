"""Progress of a step over many sentences: one line on a terminal, otherwise a line every half minute."""

import contextlib
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

from ln_repro.corpus.download import Report

SECONDS = 30.0
"""Time between two lines where there is no terminal."""


@contextlib.contextmanager
def progress(
    step: str, total: int, report: Report, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[int], None]]:
    """Report a step and its progress, rate and time left; yield a function that takes the number of sentences done."""
    from rich.console import Console
    from rich.live import Live

    report(f"{step} {total} pairs")
    console = Console(stderr=True, highlight=False)
    start = last = clock()
    done = 0
    with Live(console=console, transient=True, auto_refresh=False) as live:

        def advance(count: int) -> None:
            nonlocal done, last
            done += count
            now = clock()
            rate = done / max(now - start, 1e-9)
            left = timedelta(seconds=round((total - done) / max(rate, 1e-9)))
            line = f"{step} {done:,} of {total:,} pairs, {rate:,.0f}/s, {left} left"
            if console.is_terminal:
                live.update(line, refresh=True)
            elif now - last >= SECONDS:
                last = now
                report(line)

        yield advance
