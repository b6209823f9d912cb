"""The learning rate as a closed form of the update: ramp and tail, two separate axes.

Paper section 3.2 (ramp, equation 1, and inverse square root) and section 4.1 (step). Plain arithmetic, so that
the trainer, tests and tables share it.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class LearningRate:
    """lr(t) for update t = 1, 2, ...: a linear ramp over ``warmup_updates``, then a tail.

    Tails: ``constant``; ``inverse_sqrt`` lr_max * sqrt(T/t) with T the ramp's length; ``anchored``
    lr_max * min(1, sqrt(anchor/t)), the tail of a ramp of ``anchor`` updates with the ramp taken away;
    ``step`` lr_max up to the end of ``step_epoch``, a tenth of it afterwards.
    """

    peak: float
    warmup_updates: int
    decay: str
    anchor: int
    step_epoch: int

    def at(self, update: int, epoch: int) -> float:
        """Return the rate of ``update`` (from 1), which belongs to ``epoch`` (from 1).

        Without a ramp, update 1 takes the full rate.
        """
        if update <= self.warmup_updates:
            return self.peak * update / self.warmup_updates
        return self.peak * self._tail(update, epoch)

    def _tail(self, update: int, epoch: int) -> float:
        match self.decay:
            case "constant":
                return 1.0
            case "inverse_sqrt":
                return math.sqrt(self.warmup_updates / update)
            case "anchored":
                return min(1.0, math.sqrt(self.anchor / update))
            case "step":
                return 1.0 if epoch <= self.step_epoch else 0.1
        raise ValueError(f"unknown decay {self.decay!r}")
