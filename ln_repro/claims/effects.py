"""Quantities and their effects: what is measured on runs, with its interval over seeds."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ln_repro.claims.intervals import LEVEL, LINEAR, LOG, UNBOUNDED, Interval, Scale, interval
from ln_repro.claims.words import arm_words
from ln_repro.records.archive import Run

SEEDS = 5
"""Number of seeds needed for a verdict on training."""
SHARE = 0.8
"""Minimum share of the seeds that must train (fail) for an arm to count as trained (failed)."""


class Count(NamedTuple):
    """A number of runs out of all, "4 of 5"."""

    hits: int
    runs: int

    @classmethod
    def of(cls, condition: Callable[[Run], bool], runs: Iterable[Run]) -> "Count":
        """Count the runs that meet a condition."""
        met = [condition(run) for run in runs]
        return cls(sum(met), len(met))

    def __str__(self) -> str:
        return f"{self.hits} of {self.runs}"

    @property
    def share(self) -> float:
        """The share of the runs; there must be some."""
        return self.hits / self.runs

    @property
    def most(self) -> bool:
        """Whether at least `SHARE` of enough runs are hits."""
        return self.runs >= SEEDS and self.share >= SHARE

    @property
    def few(self) -> bool:
        """Whether at most 1 - `SHARE` of enough runs are hits."""
        return Count(self.runs - self.hits, self.runs).most


@dataclass(frozen=True)
class Effect:
    """A quantity with its 95 % interval over seeds; infinite if only a bound of it is known."""

    value: float
    interval: Interval = UNBOUNDED
    unit: str = "{}"  # the number's place in its text
    digits: str = ".3g"

    def __str__(self) -> str:
        low, high = (f"{end:{self.digits}}" for end in self.interval)
        if math.isinf(self.value):
            return f"at least {self.unit.format(low)}"
        number = f"{self.value:{self.digits}}"
        return self.unit.format(number if self.interval == UNBOUNDED else f"{number} [{low}, {high}]")


@dataclass(frozen=True)
class Metric:
    """A quantity measured on one run, or on several runs with the same seed."""

    words: str  # its name, with one ``{}`` per arm
    of: Callable[..., float]  # computes the quantity from one run per arm
    unit: str = "{}"
    scale: Scale = LINEAR
    digits: str = ".3g"

    def name(self, arms: Sequence[str]) -> str:
        """Return the name of the quantity for the given arms."""
        return self.words.format(*map(arm_words, arms))

    def minus(self) -> "Metric":
        """Return the metric's difference between two arms."""
        return replace(self, words=f"{self.words} minus that of {{}}", scale=LINEAR, digits="+.2g",
                       of=lambda first, second: self.of(first) - self.of(second))  # fmt: skip

    def over(self, unit: str) -> "Metric":
        """Return the metric's ratio of two arms."""
        return replace(self, words=f"{self.words} over that of {{}}", scale=LOG, unit=unit,
                       of=lambda first, second: self.of(first) / self.of(second))  # fmt: skip

    def effect(self, values: Sequence[float], level: float = LEVEL) -> Effect:
        """Return the mean of values with its interval; without one for fewer than two or infinite values."""
        finite = len(values) > 0 and self.scale.has(values)
        mean = self.scale.mean(values) if finite else math.nan
        bounds = interval(values, self.scale, level) if finite and len(values) > 1 else UNBOUNDED
        return Effect(mean, bounds, self.unit, self.digits)


def more_seeds(values: Sequence[float], regions: Sequence[Interval], scale: Scale, level: float = LEVEL) -> str | None:
    """Return how many seeds would decide if mean and spread stayed the same; None if no number would.

    The interval's half-width falls with the square root of the number.
    """
    ends = [end for region in regions for end in region if math.isfinite(end)]
    if not scale.has(values) or len(values) < 2:
        return f"{SEEDS} seeds" if len(values) < SEEDS else None
    transform: Callable[[float], float] = math.log if scale is LOG else float
    low, high = map(transform, interval(values, scale, level))
    crossed = [end for end in map(transform, ends) if low < end < high]
    distance = min((abs((low + high) / 2 - end) for end in crossed), default=0.0)
    return f"about {math.ceil(len(values) * ((high - low) / 2 / distance) ** 2)} seeds" if distance else None
