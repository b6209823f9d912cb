"""Train several runs in turn, with the gradients of those that are at the same update computed together."""

import logging
from collections.abc import Callable, Iterable, Sequence

import torch

from ln_repro.engine.group import Group
from ln_repro.engine.stacked.joint import Joint
from ln_repro.engine.stacked.rows import Row
from ln_repro.engine.stacked.trust import trusted
from ln_repro.engine.stop import StopRequest
from ln_repro.engine.trainer import Gradients
from ln_repro.engine.training import Loop, begin
from ln_repro.model.batch import Batch
from ln_repro.system.distributed import Rank

logger = logging.getLogger(__name__)


def train_stack(descriptors: Sequence[int], stop: StopRequest) -> int:
    """Train the runs whose workers are at the other ends of some sockets, until all have ended."""
    stop.catch_signals()
    joined = {row: inputs for row in (Row(number, stop) for number in descriptors) if (inputs := row.join())}
    together = len(joined) > 1 and trusted(next(iter(joined.values())))
    rows: dict[Loop, Row] = {}
    for row, inputs in joined.items():
        try:
            rows[begin(inputs, row, Group(Rank()), len(joined) if together else 1)] = row
        except Exception as error:
            row.end(1, error)
    Driver(rows, lambda loop, error: rows.pop(loop).end(loop.status, error), together).run()
    return 0


class Driver:
    """Lets training loops go on in step: the runs with the fewest updates first, so that the others meet them.

    A run that ends, diverges or fails leaves the others as they are; ``ended`` is called with its loop and error. If
    gradients cannot be computed together, every run computes its own, and the log says so.
    """

    def __init__(
        self, loops: Iterable[Loop], ended: Callable[[Loop, Exception | None], None], together: bool = True
    ) -> None:
        self.running = {loop: loop.run() for loop in loops}
        self.ended = ended
        self.batches: dict[Loop, list[Batch]] = {}  # of the next update of each run
        self.rows: list[Loop] = []
        self.joint: Joint | None = None  # of the models of `rows`
        self.together = together

    def run(self) -> None:
        """Train until all runs have ended."""
        for loop in list(self.running):
            self._go_on(loop)
        while self.batches:
            update = min(loop.update for loop in self.batches)
            rows = [loop for loop in self.batches if loop.update == update]
            for loop, gradients in zip(rows, self._gradients(rows), strict=True):
                self._go_on(loop, gradients)

    def _go_on(self, loop: Loop, gradients: Gradients | None = None) -> None:
        """Let a run update its parameters, and go on to its next mini-batches."""
        error = None
        try:
            self.batches[loop] = self.running[loop].send(gradients)
            return
        except StopIteration:
            pass
        except Exception as failure:
            error = failure
        del self.running[loop]
        self.batches.pop(loop, None)
        self.joint, self.rows = None, []  # they would keep the run's memory
        self.ended(loop, error)

    def _gradients(self, rows: list[Loop]) -> Sequence[Gradients | None]:
        """Return what each of some runs at the same update needs for it; None: the run computes its own gradients."""
        if len(rows) > 1 and self.together:
            try:
                if rows != self.rows:
                    self.joint, self.rows = None, []  # frees memory first
                    self.joint, self.rows = Joint([loop.trainer for loop in rows]), rows
                assert self.joint is not None
                return self.joint.add_up_gradients(same([self.batches[loop] for loop in rows]))
            except Exception as error:  # of any kind: vmap rejects a scheme, memory does not suffice
                reason = str(error).partition("\n")[0]
                logger.warning("the runs go on one by one: %s: %s", type(error).__name__, reason)
                self.joint, self.rows, self.together = None, [], False
        return [None] * len(rows)


def same(updates: list[list[Batch]]) -> list[Batch]:
    """Return the mini-batches of an update, or raise `RuntimeError` if they are not the same for all runs."""
    first = updates[0]
    for samples in updates[1:]:
        if len(samples) != len(first) or not all(map(torch.equal, *([s["id"] for s in of] for of in (first, samples)))):
            raise RuntimeError("the runs have different mini-batches")
    return first
