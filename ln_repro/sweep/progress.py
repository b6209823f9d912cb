"""What a sweep shows while it goes: a live board on a terminal, a line for every cell that ends elsewhere."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from ln_repro.errors import Interrupted
from ln_repro.records.status import row, shown, summary
from ln_repro.sweep.cell import reason
from ln_repro.sweep.plan import Planned
from ln_repro.system.terminal import Screen

REFRESH_SECONDS = 2.0
COLUMNS = ("cell", "state", "update", "loss", "bleu")


class Board(Screen):
    """All cells of a sweep: how many are in which state, and those at work one by one.

    Args:
        plan: the cells.
        queue: tells the state of those that wait elsewhere, in a cluster's queue.
    """

    def __init__(
        self, plan: Sequence[Planned], queue: Callable[[], Mapping[str, str]] = dict, console: Console | None = None
    ) -> None:
        super().__init__(console, auto_refresh=False)
        self.plan = plan
        self.queue = queue
        self.troubles: list[str] = []
        """One line for each cell that has ended without a record."""
        self.note = ""
        """How many run where, and how fast."""
        self._drawn = 0.0
        self._settled: dict[str, str] = {}

    def ended(self, planned: Planned, status: int = 0, log: Path | None = None) -> None:
        """Take note that a cell has ended."""
        if status == 0:
            bleu = row(planned.folder)["bleu"]
            self.say(f"{planned.label}: {planned.state}" + ("" if bleu is None else f", test BLEU {bleu:.2f}"))
            return
        self.troubles.append(f"{planned.label}: {_trouble(planned, status, log)}")
        self.say(self.troubles[-1])

    def states(self) -> dict[str, str]:
        """Return the state of every cell, by name."""
        waiting = self.queue()
        for planned in self.plan:
            if planned.name not in self._settled and planned.done:
                self._settled[planned.name] = planned.state
        return {p.name: self._settled.get(p.name) or waiting.get(p.name) or p.state for p in self.plan}

    def show(self) -> None:
        """Draw the board, if there is a terminal and it is time."""
        if self.console.is_terminal and time.monotonic() - self._drawn > REFRESH_SECONDS:
            self.live.update(self._drawing(), refresh=True)
            self._drawn = time.monotonic()

    def _drawing(self) -> Group:
        states = self.states()
        table = Table(box=None, padding=(0, 2, 0, 0))
        for name in COLUMNS:
            table.add_column(name, justify="left" if name in ("cell", "state") else "right")
        for planned in self.plan:
            if states[planned.name] == "running":
                table.add_row(*shown({**row(planned.folder), "cell": planned.label}, COLUMNS))
        return Group(Text(summary(states.values())), *([Text(self.note)] if self.note else []), table)


def _trouble(planned: Planned, status: int, log: Path | None) -> str:
    """Return why a cell has no record."""
    if status == Interrupted.exit_code:
        return "stopped"
    if log:
        return f"failed, {reason(status, log)} (see {log})"
    failure = planned.folder.failure
    return f"failed, {failure['error']}" if failure else planned.state
