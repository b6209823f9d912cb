"""The learning-rate schedule of `ln_repro.experiment.learning_rate`, registered with fairseq."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, List  # noqa: UP035 - fairseq reads the annotation as text

from fairseq.dataclass import FairseqDataclass
from fairseq.optim.lr_scheduler import FairseqLRScheduler, register_lr_scheduler
from omegaconf import II
from torch import Tensor

from ln_repro.experiment.learning_rate import LearningRate


@dataclass
class RampAndTailConfig(FairseqDataclass):
    """Warm-up ramp and tail."""

    warmup_updates: int = 0  # length of the linear ramp; 0: none
    decay: str = "constant"  # the tail, see ln_repro.experiment.learning_rate
    anchor: int = 4000  # anchor of the anchored tail
    step_epoch: int = 0  # last epoch before the step; 0: no step
    part: str = "all"  # stack that the ramp applies to: all, encoder or decoder
    embeddings: str = "ramp"  # schedule of embeddings and output projection under a part: ramp or full
    lr: List[float] = II("optimization.lr")  # noqa: UP006 - see the import


@register_lr_scheduler("ln_ramp_and_tail", dataclass=RampAndTailConfig)
class RampAndTail(FairseqLRScheduler):
    """Scheduler that sets the learning rate of the *next* update, so that the rate of update 1 is not 0.

    The rate that it reports is that of the first group of parameters, which follows the ramp.
    """

    def __init__(self, cfg: RampAndTailConfig, optimizer: Any) -> None:
        super().__init__(cfg, optimizer)
        self.done = 0
        self.rate: LearningRate | None = None

    def plan(self, updates_per_epoch: int, total: int) -> None:
        """Set the length of the run, which is known only once the batches have been built."""
        cfg = self.cfg
        self.rate = LearningRate(
            cfg.lr[0], cfg.warmup_updates, cfg.decay, cfg.anchor, cfg.step_epoch, updates_per_epoch, total
        )
        self.step_update(self.done)

    def step_update(self, num_updates: int) -> float:
        """Set the learning rate of the update after ``num_updates`` updates."""
        self.done = num_updates
        if self.rate is not None:
            groups = self.optimizer.param_groups  # with schedule.part, the second one has no ramp
            for group, rate in zip(groups, (self.rate, self.rate.without_ramp()), strict=False):
                group["lr"] = rate.at(num_updates + 1)
        return self.optimizer.get_lr()


def split(optimizer: Any, cfg: RampAndTailConfig, named: Iterable[tuple[str, Tensor]]) -> None:
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
