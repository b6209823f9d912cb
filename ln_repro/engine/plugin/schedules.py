"""The learning-rate schedule as fairseq asks for it; the formulas are in `ln_repro.schedule`."""

from dataclasses import dataclass, field
from typing import Any, List  # noqa: UP035 - fairseq reads the annotation as text

from fairseq.dataclass import FairseqDataclass
from fairseq.optim.lr_scheduler import FairseqLRScheduler, register_lr_scheduler
from omegaconf import II

from ln_repro.schedule import LearningRate


@dataclass
class RampAndTailConfig(FairseqDataclass):
    """Ramp and tail."""

    warmup_updates: int = field(default=0, metadata={"help": "length of the linear ramp; 0: none"})
    decay: str = field(default="constant", metadata={"help": "the tail, see ln_repro.schedule"})
    anchor: int = field(default=4000, metadata={"help": "of the anchored tail"})
    step_epoch: int = field(default=8, metadata={"help": "last epoch before the step"})
    lr: List[float] = II("optimization.lr")  # noqa: UP006 - see the import


@register_lr_scheduler("ln_ramp_and_tail", dataclass=RampAndTailConfig)
class RampAndTail(FairseqLRScheduler):
    """Sets the rate of the *next* update, so that update 1 is never taken at rate 0."""

    def __init__(self, cfg: RampAndTailConfig, optimizer: Any) -> None:
        super().__init__(cfg, optimizer)
        self.rate = LearningRate(cfg.lr[0], cfg.warmup_updates, cfg.decay, cfg.anchor, cfg.step_epoch)
        self.done = 0
        self.epoch = 1
        self._set()

    def step_begin_epoch(self, epoch: int) -> float:
        """Take note of the epoch that begins."""
        self.epoch = epoch
        return self._set()

    def step_update(self, num_updates: int) -> float:
        """Take note that ``num_updates`` updates are done, and set the rate of the one that follows."""
        self.done = num_updates
        return self._set()

    def _set(self) -> float:
        self.optimizer.set_lr(self.rate.at(self.done + 1, self.epoch))
        return self.optimizer.get_lr()
