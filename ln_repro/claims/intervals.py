"""Statistics over seeds: Student's 95 % intervals, verdicts on them, and Fisher's exact test."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from statistics import fmean, geometric_mean, linear_regression, stdev

from scipy.special import stdtrit

Interval = tuple[float, float]
LEVEL = 0.95
SIGNIFICANT = 0.05
"""Significance level of Fisher's exact test."""
UNBOUNDED: Interval = (-math.inf, math.inf)
"""The interval of a quantity that nothing is known about."""
SAMPLES = 1000
"""Number of bootstrap samples."""
MAX_EXPONENT = 700.0
"""`math.exp` overflows above about 709."""


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the mean; infinite for fewer than two values."""
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.inf


def mean_interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Return the Student interval of the mean; unbounded for fewer than two values."""
    if len(values) < 2:
        return -math.inf, math.inf
    half = float(stdtrit(len(values) - 1, (1 + level) / 2)) * standard_error(values)
    return fmean(values) - half, fmean(values) + half


def prediction_interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Return the interval that contains a further value of the same normal distribution with probability ``level``."""
    reach = float(stdtrit(len(values) - 1, (1 + level) / 2)) * stdev(values) * math.sqrt(1 + 1 / len(values))
    return fmean(values) - reach, fmean(values) + reach


def ratio_interval(ratios: Sequence[float], level: float = LEVEL) -> Interval:
    """Return the interval of the geometric mean of positive ratios, unbounded for fewer than two."""
    low, high = mean_interval([math.log(ratio) for ratio in ratios], level)
    return math.exp(low), math.exp(high) if high < MAX_EXPONENT else math.inf


@dataclass(frozen=True)
class Scale:
    """The scale on which means and intervals are computed: linear or logarithmic."""

    mean: Callable[[Sequence[float]], float]
    interval: Callable[[Sequence[float], float], Interval]  # of the mean, at a confidence level
    possible: Interval = (-math.inf, math.inf)  # the range of possible values

    def has(self, values: Sequence[float]) -> bool:
        """Return whether every value is finite and, on the logarithmic scale, positive."""
        least = 0.0 if self.mean is geometric_mean else -math.inf
        return all(least < value < math.inf for value in values)


LINEAR = Scale(fmean, mean_interval)
LOG = Scale(geometric_mean, ratio_interval, (0.0, math.inf))
"""For ratios: twice as long and half as long are equally far from 1."""
PERCENT = Scale(fmean, mean_interval, (0.0, 100.0))
NOT_NEGATIVE = Scale(fmean, mean_interval, (0.0, math.inf))


def interval(values: Sequence[float], scale: Scale = LINEAR, level: float = LEVEL) -> Interval:
    """Return the interval of the mean.

    If a value is infinite, return the range from least to greatest, since a rule must then hold for every value. If a
    value is NaN, for example the difference of two infinities, the interval is unbounded and decides nothing.
    """
    if any(map(math.isnan, values)):
        return -math.inf, math.inf
    return scale.interval(values, level) if scale.has(values) else (min(values), max(values))


def fisher_exact(hits: int, of: int, other_hits: int, other_of: int) -> float:
    """Return the two-sided p-value of Fisher's exact test: the probability of all tables no likelier than this one."""
    total, drawn = of + other_of, hits + other_hits
    ways = {
        first: comb(of, first) * comb(other_of, drawn - first)
        for first in range(max(0, drawn - other_of), min(of, drawn) + 1)
    }
    return sum(number for number in ways.values() if number <= ways[hits]) / comb(total, drawn)


def exponent(curve: Mapping[int, float]) -> float:
    """Fit y = a x^k to ``curve`` (x to y, both positive) by least squares on the logarithms; return k."""
    return linear_regression([math.log(x) for x in curve], [math.log(y) for y in curve.values()]).slope


def slope(values: Sequence[float]) -> float:
    """Return the slope of the line through values at 1, 2, ..."""
    return linear_regression(range(1, len(values) + 1), values).slope


REPRODUCED, CONTRADICTED, INCONCLUSIVE = "reproduced", "contradicted", "inconclusive"
NOT_RUN = "not-run"
"""An arm that the rule needs has no run."""


def verdict(interval: Interval, region: Interval, contradicted: Interval | None = None) -> str:
    """Return the verdict on an interval.

    Reproduced inside the region; contradicted inside the region ``contradicted``, or if there is none, entirely outside
    the first; otherwise inconclusive.
    """
    if inside(interval, region):
        return REPRODUCED
    denied = inside(interval, contradicted) if contradicted else outside(interval, region)
    return CONTRADICTED if denied else INCONCLUSIVE


def inside(interval: Interval, region: Interval) -> bool:
    """Return whether an interval lies in a region without its lower end: a difference of 0 is not above 0."""
    return (region[0] < interval[0] or region[0] == -math.inf) and interval[1] <= region[1]


def outside(interval: Interval, region: Interval) -> bool:
    """Return whether an interval and a region have no value in common."""
    return interval[1] < region[0] or region[1] < interval[0]


def near(values: Sequence[float], region: Interval) -> str:
    """Return reproduced if the mean lies within four standard errors of the region, otherwise contradicted."""
    tolerance, mean = 4 * standard_error(values), fmean(values)
    return REPRODUCED if region[0] - tolerance <= mean <= region[1] + tolerance else CONTRADICTED


def all_of(parts: Iterable[str]) -> str:
    """Return the worst verdict, for a rule whose parts must all hold; inconclusive without parts."""
    verdicts = set(parts) or {INCONCLUSIVE}
    return next((word for word in (CONTRADICTED, INCONCLUSIVE) if word in verdicts), REPRODUCED)


def any_of(parts: Sequence[str]) -> str:
    """Return the best verdict, for a rule of which one part must hold."""
    return next((word for word in (REPRODUCED, INCONCLUSIVE) if word in parts), CONTRADICTED)
