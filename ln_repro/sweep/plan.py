"""What a sweep would do: one row per cell."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ln_repro.experiment.learning_rate import LearningRate
from ln_repro.experiment.settings import Experiment
from ln_repro.records.record import unprobed
from ln_repro.records.run_dir import RunFolder
from ln_repro.sweep.grid import Cell

COLUMNS = ("id", "state", "lr", "updates", "M tokens", "total lr", "command")


@dataclass(frozen=True)
class Planned:
    """A cell, composed. ``data`` is the corpus's fingerprint, None while the corpus is not there.

    ``skipped`` are the ids of records that need no run.
    """

    cell: Cell
    experiment: Experiment
    rate: LearningRate
    data: str | None
    skipped: frozenset[str] = frozenset()

    @property
    def id(self) -> str | None:
        """Return the run's id; None while the corpus, which it depends on, is not there."""
        return self.experiment.id(self.data) if self.data else None

    @property
    def name(self) -> str:
        """Return the name of the run's directory; it ends in the id."""
        return f"{self.cell.exp}-s{self.cell.seed}-{self.id or '?'}"

    @property
    def label(self) -> str:
        """Return what the cell is called on the screen: its name in the grid, and the id."""
        return f"{self.cell.name}-{self.id or '?'}"

    @property
    def size(self) -> str:
        """Return what decides how much of a GPU the run takes, in words."""
        model, batch = self.experiment.model, self.experiment.train.max_tokens
        return f"{model.layers}x{model.width}x{model.ffn}, {batch} tokens, {self.experiment.precision}"

    @property
    def folder(self) -> RunFolder:
        """Return where the run lives; its corpus has to be there."""
        assert self.data is not None
        return RunFolder.of(self.experiment, self.experiment.id(self.data))

    @property
    def state(self) -> str:
        """Return ``planned``, ``recorded``, or where the run stands."""
        if self.id in self.skipped:
            return "recorded"
        return self.folder.state if self.data else "planned"

    @property
    def done(self) -> bool:
        """Return whether there is nothing left to run."""
        return self.state in ("finished", "diverged", "recorded")

    @property
    def unprobed(self) -> bool:
        """Return whether it has a record, but not the probes that are asked for; only `rerun=true` takes them."""
        record = self.folder.record
        return record is not None and unprobed(self.experiment, record)

    def row(self, queue: Mapping[str, str]) -> tuple[str, ...]:
        """Return the cells of the table; the cost is the number of tokens in training batches, padding included.

        Args:
            queue: the states of those that wait in a cluster's queue, by name.
        """
        train = self.experiment.train
        tokens = self.rate.total * train.max_tokens * train.batches_per_update / 1e6
        command = shlex.join(["ln-repro", "run", *self.cell.overrides])
        return (
            self.id or "-", queue.get(self.name, self.state), f"{self.experiment.lr:g}", str(self.rate.total),
            f"{tokens:.1f}", f"{self.rate.sum():.4g}", command,
        )  # fmt: skip


def table(plan: Sequence[Planned], queue: Mapping[str, str]) -> str:
    """Return the plan as text."""
    rows = [COLUMNS, *(planned.row(queue) for planned in plan)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)
