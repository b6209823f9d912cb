"""Learning-rate schedules in closed form, as a ramp and a tail that can be combined freely.

From paper section 3.2 (ramp, equation 1, and inverse square root) and section 4.1 (step; linear for RAdam). The
trainer, tests and tables share this code, so it depends on no library.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class LearningRate:
    """The learning rate of updates t = 1, 2, ...: a linear ramp over ``warmup_updates``, then one of the ``TAILS``.

    Args:
        peak: the maximum.
        warmup_updates: length of the ramp; 0 for none.
        decay: name of the tail.
        anchor: for `anchored`, the length of the ramp that is left out.
        step_epoch: last epoch before the step; None if the tail has none.
        updates_per_epoch: for tails that depend on the epoch.
        total: number of updates of the run, for tails that end at zero.
    """

    peak: float
    warmup_updates: int
    decay: str
    anchor: int
    step_epoch: int | None
    updates_per_epoch: int
    total: int

    def at(self, update: int) -> float:
        """Return the learning rate of ``update``, counted from 1; without a ramp, update 1 has the full rate."""
        if update <= self.warmup_updates:
            return self.peak * update / self.warmup_updates
        return self.peak * TAILS[self.decay](self, update)

    def sum(self) -> float:
        """Return the sum of the learning rate over all updates of the run."""
        return math.fsum(self.at(update) for update in range(1, self.total + 1))

    @property
    def last_full_update(self) -> int:
        """The last update before the step."""
        return (self.step_epoch or 0) * self.updates_per_epoch


def constant(rate: LearningRate, update: int) -> float:
    """Return 1: no decay."""
    return 1.0


def inverse_sqrt(rate: LearningRate, update: int) -> float:
    """Return sqrt(T / t), where T is the length of the ramp, as in fairseq; the paper does not state its constant."""
    return math.sqrt(rate.warmup_updates / update)


def anchored(rate: LearningRate, update: int) -> float:
    """Return min(1, sqrt(anchor / t)): the tail after a ramp of ``anchor`` updates, with the ramp left out."""
    return min(1.0, math.sqrt(rate.anchor / update))


def literal(rate: LearningRate, update: int) -> float:
    """Return 1 / sqrt(t): the paper's "T = 1". Over 15k updates, its sum is 39 times smaller than that of T = 4000."""
    return 1 / math.sqrt(update)


def linear(rate: LearningRate, update: int) -> float:
    """Return 1 - (t - 1) / total, as in the paper's RAdam runs."""
    return 1 - (update - 1) / rate.total


def step(rate: LearningRate, update: int) -> float:
    """Return 1 until the end of epoch ``step_epoch`` and 0.1 afterwards, as in the paper's Pre-LN runs on IWSLT14."""
    return 1.0 if update <= rate.last_full_update else 0.1


def step_inverse_sqrt(rate: LearningRate, update: int) -> float:
    """Return 1 until update s, the end of ``step_epoch``, then sqrt(s / t), as in the paper's Pre-LN runs on WMT14."""
    return min(1.0, math.sqrt(rate.last_full_update / update))


TAILS: dict[str, Callable[[LearningRate, int], float]] = {
    tail.__name__: tail for tail in (constant, inverse_sqrt, anchored, literal, linear, step, step_inverse_sqrt)
}
