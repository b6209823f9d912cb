"""The learning-rate schedule of `ln_repro.experiment.learning_rate` with fairseq's interface."""

from collections.abc import Iterable

from fairseq.optim.lr_scheduler import FairseqLRScheduler
from torch import Tensor

from ln_repro.engine.plugin.optimizers import TorchOptimizer
from ln_repro.experiment.learning_rate import LearningRate
from ln_repro.experiment.settings import Schedule


class RampAndTail(FairseqLRScheduler):
    """Scheduler that sets the learning rate of the *next* update, so that the rate of update 1 is not 0.

    The rate that it reports is that of the first group of parameters, which follows the ramp.
    """

    def __init__(self, optimizer: TorchOptimizer) -> None:
        super().__init__(None, optimizer)
        self.done = 0
        self.rate: LearningRate | None = None

    def plan(self, rate: LearningRate) -> None:
        """Set the rates, which depend on the length of the run, known only once the batches have been built."""
        self.rate = rate
        self.step_update(self.done)

    def step_update(self, num_updates: int) -> float:
        """Set the learning rate of the update after ``num_updates`` updates."""
        self.done = num_updates
        if self.rate is not None:
            groups = self.optimizer.param_groups  # with schedule.part, the second one has no ramp
            for group, rate in zip(groups, (self.rate, self.rate.without_ramp()), strict=False):
                group["lr"] = rate.at(num_updates + 1)
        return self.optimizer.get_lr()


def split(optimizer: TorchOptimizer, cfg: Schedule, named: Iterable[tuple[str, Tensor]]) -> None:
    """Give the parameters that do not follow the ramp of ``cfg.part`` a group of their own, the second.

    Args:
        optimizer: fairseq's, with a single group.
        cfg: the schedule; with the part ``all``, nothing changes.
        named: the model's parameters with their names, of which those of a stack begin with its name.
    """
    if cfg.part == "all":
        return
    full = set()
    for name, parameter in named:
        stack, inside = name.partition(".")[0], ".stack." in name
        if (stack != cfg.part) if inside else cfg.embeddings == "full":
            full.add(parameter)
    (group,) = optimizer.param_groups
    parameters = group["params"]
    group["params"] = [parameter for parameter in parameters if parameter not in full]
    optimizer.param_groups.append({**group, "params": [parameter for parameter in parameters if parameter in full]})
