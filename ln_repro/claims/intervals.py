"""Statistics over seeds: Student's 95 % intervals, verdicts on them, and Fisher's exact test."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, linear_regression, stdev

from scipy.special import stdtrit

Interval = tuple[float, float]
UNBOUNDED: Interval = (-math.inf, math.inf)  # the interval of a quantity that nothing is known about
LEVEL = 0.95
SIGNIFICANT = 0.05  # the level of Fisher's exact test
SAMPLES = 1000  # of a bootstrap
VERDICTS = REPRODUCED, INCONCLUSIVE, CONTRADICTED = "reproduced", "inconclusive", "contradicted"  # from best to worst
NOT_RUN = "not-run"  # an arm that the rule needs has no run


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the mean; infinite for fewer than two values."""
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.inf


def mean_interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Return the Student interval of the mean; unbounded for fewer than two values."""
    if len(values) < 2:
        return UNBOUNDED
    half = float(stdtrit(len(values) - 1, (1 + level) / 2)) * standard_error(values)
    return fmean(values) - half, fmean(values) + half


def prediction_interval(values: Sequence[float], level: float) -> Interval:
    """Return the interval that contains a further value of the same normal distribution with probability ``level``."""
    reach = float(stdtrit(len(values) - 1, (1 + level) / 2)) * stdev(values) * math.sqrt(1 + 1 / len(values))
    return fmean(values) - reach, fmean(values) + reach


@dataclass(frozen=True)
class Scale:
    """The scale on which values are averaged: linear or, for ratios, logarithmic."""

    transform: Callable[[float], float]
    inverse: Callable[[float], float]
    lower_end: float  # which no value reaches

    def has(self, values: Sequence[float]) -> bool:
        """Return whether every value is finite and, on the logarithmic scale, positive."""
        return all(self.lower_end < value < math.inf for value in values)

    def mean(self, values: Sequence[float]) -> float:
        return self.inverse(fmean(map(self.transform, values)))

    def interval(self, values: Sequence[float], level: float = LEVEL) -> Interval:
        """Return the Student interval of the mean; unbounded for fewer than two values.

        If a value is infinite, return the range from least to greatest, since a rule must then hold for every value. If
        one is NaN, for example the difference of two infinities, the interval is unbounded and decides nothing.
        """
        if any(map(math.isnan, values)):
            return UNBOUNDED
        if not self.has(values):
            return min(values), max(values)
        low, high = mean_interval([*map(self.transform, values)], level)
        return self.inverse(low), self.inverse(high)


LINEAR = Scale(float, float, -math.inf)
LOG = Scale(math.log, lambda x: math.exp(x) if x < 700 else math.inf, 0.0)  # `math.exp` overflows above about 709
"""On the logarithmic scale, twice and half as long are equally far from 1; the mean is the geometric one."""


def verdict(interval: Interval, region: Interval, contradicted: Interval | None = None) -> str:
    """Return the verdict on an interval.

    Reproduced inside the region; contradicted inside the region ``contradicted``, or if there is none, entirely outside
    the first; otherwise inconclusive. The lower end of a region is outside it: a difference of 0 is not above 0.
    """

    def inside(low: float, high: float) -> bool:
        return (low < interval[0] or low == -math.inf) and interval[1] <= high

    if inside(*region):
        return REPRODUCED
    denied = inside(*contradicted) if contradicted else interval[1] < region[0] or region[1] < interval[0]
    return CONTRADICTED if denied else INCONCLUSIVE


def near(values: Sequence[float], region: Interval) -> str:
    """Return reproduced if the mean lies within four standard errors of the region, otherwise contradicted."""
    tolerance, mean = 4 * standard_error(values), fmean(values)
    return REPRODUCED if region[0] - tolerance <= mean <= region[1] + tolerance else CONTRADICTED


def all_of(verdicts: Iterable[str]) -> str:
    """Return the worst verdict, for a rule whose parts must all hold; inconclusive without parts."""
    return max(verdicts, key=VERDICTS.index, default=INCONCLUSIVE)


def fisher_exact(hits: int, of: int, other_hits: int, other_of: int) -> float:
    """Return the two-sided p-value of Fisher's exact test: the probability of all tables no likelier than this one."""
    total, drawn = of + other_of, hits + other_hits
    ways = {
        first: math.comb(of, first) * math.comb(other_of, drawn - first)
        for first in range(max(0, drawn - other_of), min(of, drawn) + 1)
    }
    return sum(number for number in ways.values() if number <= ways[hits]) / math.comb(total, drawn)


def exponent(curve: Mapping[int, float]) -> float:
    """Fit y = a x^k to ``curve`` (x to y, both positive) by least squares on the logarithms; return k."""
    return linear_regression([math.log(x) for x in curve], [math.log(y) for y in curve.values()]).slope


def mean_ratio(curve: Sequence[float]) -> float:
    """Return the geometric mean of the ratios of successive values."""
    return float((curve[-1] / curve[0]) ** (1 / (len(curve) - 1)))


def slope(values: Sequence[float]) -> float:
    """Return the slope of the line through values at 1, 2, ..."""
    return linear_regression(range(1, len(values) + 1), values).slope
