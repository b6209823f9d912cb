"""Learning-rate schedules in closed form, as a ramp and a tail that can be combined freely.

From paper section 3.2 (ramp, equation 1, and inverse square root) and section 4.1 (step; linear for RAdam). The
trainer, tests and tables share this code, so it depends on no library.
"""

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class LearningRate:
    """The learning rate of updates t = 1, 2, ...: a linear ramp over ``warmup_updates``, then a tail."""

    peak: float  # the maximum
    warmup_updates: int  # length of the ramp; 0 for none
    decay: str  # name of the tail (see `tail`)
    anchor: int  # for `anchored`, the length of the ramp that is left out
    before_step: int  # for tails with a step, the last update before it
    total: int  # number of updates of the run, for tails that end at zero

    def at(self, update: int) -> float:
        """Return the learning rate of ``update``, counted from 1; without a ramp, update 1 has the full rate."""
        if update <= self.warmup_updates:
            return self.peak * update / self.warmup_updates
        return self.peak * self.tail(update)

    def tail(self, update: int) -> float:
        """Return the learning rate of an update t after the ramp, relative to the peak."""
        match self.decay:
            case "constant":
                return 1.0
            case "inverse_sqrt":  # sqrt(T / t) for a ramp of T updates, as in fairseq; the paper states no constant
                return math.sqrt(self.warmup_updates / update)
            case "anchored":  # the tail after a ramp of ``anchor`` updates, with the ramp left out
                return min(1.0, math.sqrt(self.anchor / update))
            case "literal":  # the paper's "T = 1"; over 15k updates, its sum is 39 times smaller than that of T = 4000
                return 1 / math.sqrt(update)
            case "linear":  # the paper's RAdam runs
                return 1 - (update - 1) / self.total
            case "step":  # the paper's Pre-LN runs on IWSLT14
                return 1.0 if update <= self.before_step else 0.1
            case "step_inverse_sqrt":  # the paper's Pre-LN runs on WMT14
                return min(1.0, math.sqrt(self.before_step / update))
        raise ValueError(f"there is no decay {self.decay!r}")

    def without_ramp(self) -> "LearningRate":
        """Return the same tail from update 1 on, at its peak for as long as the ramp would have taken."""
        if self.decay == "inverse_sqrt":
            return replace(self, warmup_updates=0, decay="anchored", anchor=self.warmup_updates)
        return replace(self, warmup_updates=0)

    def sum(self) -> float:
        """Return the sum of the learning rate over all updates of the run."""
        return math.fsum(self.at(update) for update in range(1, self.total + 1))
