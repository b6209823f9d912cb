"""The learning rate as a closed form of the update: ramp and tail, two separate axes.

Paper section 3.2 (ramp, equation 1, and inverse square root) and section 4.1 (step; linear for RAdam). Plain
arithmetic, so that the trainer, tests and tables share it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class LearningRate:
    """lr(t) for update t = 1, 2, ...: a linear ramp over ``warmup_updates``, then one of the ``TAILS``.

    ``updates_per_epoch`` and ``total`` (updates in all) are those of the run; tails that count epochs or end at zero
    need them. ``step_epoch`` is None unless the tail has a step.
    """

    peak: float
    warmup_updates: int
    decay: str
    anchor: int
    step_epoch: int | None
    updates_per_epoch: int
    total: int

    def at(self, update: int) -> float:
        """Return the rate of ``update`` (from 1). Without a ramp, update 1 takes the full rate."""
        if update <= self.warmup_updates:
            return self.peak * update / self.warmup_updates
        return self.peak * TAILS[self.decay](self, update)

    def sum(self) -> float:
        """Return the total learning rate of the run: the sum over its updates."""
        return math.fsum(self.at(update) for update in range(1, self.total + 1))

    @property
    def last_full_update(self) -> int:
        """Return the last update of the epoch after which a step comes."""
        return (self.step_epoch or 0) * self.updates_per_epoch


def constant(rate: LearningRate, update: int) -> float:
    """1."""
    return 1.0


def inverse_sqrt(rate: LearningRate, update: int) -> float:
    """sqrt(T / t), T the ramp's length: fairseq's constant, the paper's is not printed."""
    return math.sqrt(rate.warmup_updates / update)


def anchored(rate: LearningRate, update: int) -> float:
    """min(1, sqrt(anchor / t)): the tail of a ramp of ``anchor`` updates with the ramp taken away."""
    return min(1.0, math.sqrt(rate.anchor / update))


def literal(rate: LearningRate, update: int) -> float:
    """1 / sqrt(t): the paper's own "T = 1", which takes away 39 times the total rate of T = 4000 over 15k updates."""
    return 1 / math.sqrt(update)


def linear(rate: LearningRate, update: int) -> float:
    """1 - (t - 1) / total: the paper's RAdam runs."""
    return 1 - (update - 1) / rate.total


def step(rate: LearningRate, update: int) -> float:
    """1 to the end of epoch ``step_epoch``, 0.1 afterwards: the paper's Pre-LN on IWSLT14."""
    return 1.0 if update <= rate.last_full_update else 0.1


def step_inverse_sqrt(rate: LearningRate, update: int) -> float:
    """1 to the end of epoch ``step_epoch``, at update s; sqrt(s / t) afterwards: the paper's Pre-LN on WMT14."""
    return min(1.0, math.sqrt(rate.last_full_update / update))


TAILS: dict[str, Callable[[LearningRate, int], float]] = {
    tail.__name__: tail for tail in (constant, inverse_sqrt, anchored, literal, linear, step, step_inverse_sqrt)
}
