"""The time that a sweep may take: what cannot end in it is not started, and at its end what still runs is saved."""

import math
import statistics
import time
from collections.abc import Callable, Sequence

from ln_repro.sweep.plan import Planned

SAVE_SECONDS = 45.0
"""Kept back at the end, for runs to save their state."""
START_SECONDS = 30.0
"""What a run takes besides its updates: to start, and for the last decoding."""
LOOK_SECONDS = 10.0
SLACK = 1.15
"""Validation, checkpoints, and what others on the same GPU cost."""


class Budget:
    """Some minutes; without any, for ever.

    Args:
        minutes: how many, or None.
        plan: all cells of the sweep, which share their model and corpus: the speed of one tells that of the others.
        began: when they began to count, by the clock.
        clock: tells the time in seconds.
    """

    def __init__(
        self,
        minutes: float | None,
        plan: Sequence[Planned],
        began: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.plan = plan
        self.clock = clock
        self.end = math.inf if minutes is None else began + 60 * minutes
        self._done: dict[str, float] = {}
        self._speed = 0.0
        self._next_look = -math.inf

    @property
    def left(self) -> float:
        """Return the seconds left for runs, those kept back for saving taken off."""
        return self.end - SAVE_SECONDS - self.clock()

    @property
    def over(self) -> bool:
        """Return whether what still runs has to be saved now."""
        return self.left <= 0

    def fits(self, planned: Planned) -> bool:
        """Return whether a cell can end in time, as far as the speed of the others tells; the first has to try."""
        if math.isinf(self.end):
            return True
        self._measure()
        if not self._speed:
            return not self.over
        updates = max(0.0, planned.rate.total - self._done[planned.name])
        return START_SECONDS + SLACK * updates / self._speed <= self.left

    def _measure(self) -> None:
        """Look, not too often, how far every cell is, and how fast the last updates were."""
        if self.clock() < self._next_look:
            return
        self._next_look = self.clock() + LOOK_SECONDS
        self._done = {cell.name: _last(cell, "update") for cell in self.plan}
        at_work = [cell for cell in self.plan if cell.state == "running"]  # as many at a time as now
        for cells in (at_work, self.plan):
            if speeds := [speed for cell in cells if (speed := _last(cell, "updates_per_s"))]:
                self._speed = statistics.median(speeds)
                return


def _last(planned: Planned, what: str) -> float:
    """Return a value of a cell's last report of training; 0 before there is one."""
    if planned.data is None or not planned.folder.path.exists():
        return 0.0
    return float(next((e[what] for e in reversed(planned.folder.events.read()) if e["kind"] == "train"), 0.0) or 0.0)
