"""Train several runs in turn, with the gradients of those that are at the same update computed together.

On a GPU, it is first checked that stacked runs are those runs.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice

import torch

from ln_repro.engine.inputs import Inputs
from ln_repro.engine.loop import Loop
from ln_repro.engine.process_group import Group
from ln_repro.engine.stacked.connection import StackedRun
from ln_repro.engine.stacked.joint import Joint
from ln_repro.engine.stop import StopRequest
from ln_repro.engine.trainer import Gradients, StrictTrainer
from ln_repro.experiment.settings import Schedule
from ln_repro.model.batch import Batch
from ln_repro.system.distributed import ONE_BY_ONE, Rank

RATES = (1e-4, 2e-4)
"""Learning rates of the first update of the two runs that are compared, after which their parameters differ."""
CHECKED = 3  # number of updates whose gradients are compared
TOLERANCE = 1e-3
"""Relative difference of gradients in fp32. Rounding changes them by about 1e-6, a wrong dropout mask by 1."""
logger = logging.getLogger(__name__)


def train_stack(descriptors: Sequence[int], stop: StopRequest) -> int:
    """Train the runs whose workers are at the other ends of some sockets, until all have ended."""
    stop.catch_signals()
    joined = {row: inputs for row in (StackedRun(number, stop) for number in descriptors) if (inputs := row.join())}
    together = len(joined) > 1 and trusted(next(iter(joined.values())))
    rows: dict[Loop, StackedRun] = {}
    for row, inputs in joined.items():
        try:
            rows[Loop(inputs, row, Group(Rank()), len(joined) if together else 1)] = row
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
        self.joint: Joint | None = None  # of the runs that were last computed together
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
        try:
            self.batches[loop] = self.running[loop].send(gradients)
        except Exception as error:
            del self.running[loop]
            self.batches.pop(loop, None)
            self.joint = None  # it would keep the run's memory
            self.ended(loop, None if isinstance(error, StopIteration) else error)

    def _gradients(self, rows: list[Loop]) -> Sequence[Gradients | None]:
        """Return the jointly computed gradients of each run at the same update, or None if it must compute its own."""
        if len(rows) > 1 and self.together:
            try:
                trainers = [loop.trainer for loop in rows]
                if self.joint is None or self.joint.trainers != trainers:
                    self.joint = None  # frees memory first
                    self.joint = Joint(trainers)
                return self.joint.add_up_gradients(shared_samples([self.batches[loop] for loop in rows]))
            except Exception as error:  # of any kind: vmap rejects a scheme, memory does not suffice
                reason = str(error).partition("\n")[0]
                logger.warning("%s: %s: %s", ONE_BY_ONE, type(error).__name__, reason)
                self.joint, self.together = None, False
        return [None] * len(rows)


def shared_samples(updates: list[list[Batch]]) -> list[Batch]:
    """Return the mini-batches of an update, or raise `RuntimeError` if they are not the same for all runs."""
    first, *others = updates
    for samples in others:
        pairs = zip(first, samples, strict=False)
        if len(samples) != len(first) or not all(torch.equal(ours["id"], theirs["id"]) for ours, theirs in pairs):
            raise RuntimeError("the runs have different mini-batches")
    return first


def trusted(inputs: Inputs) -> bool:
    """Return whether two runs like that of ``inputs``, but in fp32, have the same gradients stacked as separately.

    They are computed only on a GPU: on a CPU, tests have shown it. Gradients are compared at the same parameters,
    because training amplifies rounding: on a GPU, losses differed by up to 2e-3 after 20 updates.
    """
    if inputs.on_cpu or not torch.cuda.is_available():
        return True
    try:
        most = difference(inputs)
    except Exception:  # of any kind: vmap rejects a scheme, memory does not suffice
        logger.exception("%s: the check of stacked runs failed", ONE_BY_ONE)
        return False
    logger.info("stacked gradients differ from separate ones by %.1e at most", most)
    if not most <= TOLERANCE:  # not a number, either
        logger.warning("%s: stacked gradients differ from separate ones by %.0e", ONE_BY_ONE, most)
    return most <= TOLERANCE


def difference(inputs: Inputs) -> float:
    """Return the largest difference of a run's gradients, stacked and separate, relative to the latter's norm."""
    settings = {"precision": "fp32", "schedule": Schedule(warmup_updates=0, decay="constant")}
    experiments = [inputs.experiment.model_copy(update={**settings, "lr": rate}) for rate in RATES]
    trainers = [StrictTrainer(replace(inputs, experiment=experiment), Rank()) for experiment in experiments]
    first, *checked = islice(trainers[0].next_epoch(trainers[0].get_train_iterator(1)), 1 + CHECKED)
    separate = []
    for trainer in trainers:
        trainer.plan_rates(1)
        trainer.update(first)
        separate.append([trainer.flat_gradients(samples) for samples in checked])
    joint, differences = Joint(trainers), []
    for samples, *expected in zip(checked, *separate, strict=True):
        joint.add_up_gradients(samples)
        alone = torch.stack(expected)
        differences.append((joint.gradients - alone).norm(dim=1) / alone.norm(dim=1))
    return float(torch.stack(differences).max())
