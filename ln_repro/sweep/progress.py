"""The progress of a sweep: a live table on a terminal, otherwise one line per run that has ended."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.console import Console, Group
from rich.text import Text

from ln_repro.errors import Interrupted
from ln_repro.records.status import aligned, status_of, summary
from ln_repro.sweep.plan import PlannedRun
from ln_repro.sweep.queued import reason
from ln_repro.system.progress import Screen

REFRESH_SECONDS = 2.0
COLUMNS = ("state", "update", "loss", "bleu")


class Progress(Screen):
    """A display of the number of runs in each state, with a row for each that is running.

    ``queue`` returns the states of the runs in a cluster's queue, by name.
    """

    def __init__(
        self, plan: Sequence[PlannedRun], queue: Callable[[], Mapping[str, str]] = dict, console: Console | None = None
    ) -> None:
        super().__init__(console, auto_refresh=False)
        self.plan = plan
        self.queue = queue
        self.failures: list[str] = []  # a message for each run that has ended without a record
        self._drawn = 0.0
        self._final: dict[str, str] = {}

    def ended(self, planned: PlannedRun, status: int = 0, log: Path | None = None, failure: str = "failed") -> None:
        """Report that a run has ended with the exit code ``status``; ``failure`` describes what the log explains."""
        if planned.done:
            bleu = status_of(planned.folder).bleu
            self.say(f"{planned.label}: {planned.state}" + ("" if bleu is None else f", test BLEU {bleu:.2f}"))
            return
        if status == Interrupted.exit_code:
            self.say(f"{planned.label}: stopped")
            return
        if log:
            described = f"{failure}, {reason(status, log)} (see {log})"
        else:
            described = f"failed, {error}" if (error := planned.folder.failure) else planned.state
        self.failures.append(f"{planned.label}: {described}")
        self.say(self.failures[-1])

    def states(self) -> dict[str, str]:
        """Return the state of every run, by name."""
        queue = self.queue()
        for planned in self.plan:
            if planned.name not in self._final and planned.done:
                self._final[planned.name] = planned.state
        return {p.name: self._final.get(p.name) or queue.get(p.name) or p.state for p in self.plan}

    def show(self, states: Mapping[str, str] | None = None) -> None:
        """Redraw the table on a terminal, at most once per `REFRESH_SECONDS`; the `states` may be known."""
        if not self.console.is_terminal or time.monotonic() - self._drawn <= REFRESH_SECONDS:
            return
        states = states or self.states()
        running = [planned for planned in self.plan if states[planned.name] == "running"]
        rows = [(planned.label, *status_of(planned.folder).cells(COLUMNS)) for planned in running]
        table = aligned([("run", *COLUMNS), *rows])
        self.update(Group(Text(summary(states.values())), Text(table)), refresh=True)
        self._drawn = time.monotonic()
