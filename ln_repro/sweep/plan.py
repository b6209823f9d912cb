"""What a sweep would do: one row per cell."""

from collections.abc import Sequence
from dataclasses import dataclass

from ln_repro.experiment import Experiment
from ln_repro.schedule import LearningRate
from ln_repro.store import RunFolder
from ln_repro.sweep.grid import Cell

COLUMNS = ("id", "state", "updates", "M tokens", "total lr", "command")


@dataclass(frozen=True)
class Planned:
    """A cell, composed. ``id`` is None while its corpus is not there, since the id depends on it."""

    cell: Cell
    experiment: Experiment
    id: str | None
    rate: LearningRate

    @property
    def state(self) -> str:
        """Return ``planned``, or where the run stands."""
        return RunFolder.of(self.experiment, self.id).state if self.id else "planned"

    @property
    def done(self) -> bool:
        """Return whether there is nothing left to run."""
        return self.state in ("finished", "diverged")

    def row(self) -> tuple[str, ...]:
        """Return the cells of the table; the cost is the number of tokens in training batches, padding included."""
        train = self.experiment.train
        tokens = self.rate.total * train.max_tokens * train.batches_per_update / 1e6
        command = " ".join(["ln-repro run", *self.cell.overrides])
        return (
            self.id or "-", self.state, str(self.rate.total), f"{tokens:.1f}", f"{self.rate.sum():.4g}", command,
        )  # fmt: skip


def table(plan: Sequence[Planned]) -> str:
    """Return the plan as text."""
    rows = [COLUMNS, *(planned.row() for planned in plan)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)
