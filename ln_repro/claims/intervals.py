"""Intervals over seeds: Student's, at 95 %, of means, ratios and fitted exponents; and rank correlation."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from statistics import fmean, geometric_mean, linear_regression, stdev

from scipy.special import stdtrit

Interval = tuple[float, float]
LEVEL = 0.95
TOO_LARGE = 700.0
"""For `math.exp`."""


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
    """Return where one more value of the same normal distribution lies with probability ``level``."""
    reach = float(stdtrit(len(values) - 1, (1 + level) / 2)) * stdev(values) * math.sqrt(1 + 1 / len(values))
    return fmean(values) - reach, fmean(values) + reach


def ratio_interval(ratios: Sequence[float], level: float = LEVEL) -> Interval:
    """Return the interval of the geometric mean of positive ratios."""
    low, high = mean_interval([math.log(ratio) for ratio in ratios], level)
    return math.exp(low), math.exp(high) if high < TOO_LARGE else math.inf


@dataclass(frozen=True)
class Scale:
    """What means and intervals are taken on: the numbers themselves, or their logarithms.

    Attributes:
        mean: of numbers.
        interval: of their mean, at a level.
        possible: what a number can be; on the logarithmic scale it lies above 0.
    """

    mean: Callable[[Sequence[float]], float]
    interval: Callable[[Sequence[float], float], Interval]
    possible: Interval = (-math.inf, math.inf)

    def has(self, values: Sequence[float]) -> bool:
        """Return whether every value is finite and has its place on the scale."""
        least = 0.0 if self.mean is geometric_mean else -math.inf
        return all(least < value < math.inf for value in values)


LINEAR = Scale(fmean, mean_interval)
LOG = Scale(geometric_mean, ratio_interval, (0.0, math.inf))
"""Of ratios: twice as long and half as long are equally far from even."""
PERCENT = Scale(fmean, mean_interval, (0.0, 100.0))
NOT_NEGATIVE = Scale(fmean, mean_interval, (0.0, math.inf))


def interval(values: Sequence[float], scale: Scale = LINEAR, level: float = LEVEL) -> Interval:
    """Return the interval of the mean; where a value is infinite, the span, since a rule has to hold for each.

    What is no number at all, as the difference of two infinities, decides nothing.
    """
    if any(map(math.isnan, values)):
        return -math.inf, math.inf
    return scale.interval(values, level) if scale.has(values) else (min(values), max(values))


def fisher_exact(hits: int, of: int, other_hits: int, other_of: int) -> float:
    """Return the two-sided p-value of Fisher's exact test on two counts: the tables that are no likelier than this."""
    total, drawn = of + other_of, hits + other_hits
    ways = {
        first: comb(of, first) * comb(other_of, drawn - first)
        for first in range(max(0, drawn - other_of), min(of, drawn) + 1)
    }
    return sum(number for number in ways.values() if number <= ways[hits]) / comb(total, drawn)


def exponent(curve: Mapping[int, float]) -> float:
    """Fit y = a x^k to ``curve`` (x to y, both positive) by least squares on the logarithms; return k."""
    return linear_regression([math.log(x) for x in curve], [math.log(y) for y in curve.values()]).slope


def exponent_interval(curves: Sequence[Mapping[int, float]]) -> Interval:
    """Fit every seed's curve for itself; return the interval of the exponents over seeds."""
    return mean_interval([exponent(curve) for curve in curves])


def slope(values: Sequence[float]) -> float:
    """Return the slope of the line through values at 1, 2, ..."""
    return linear_regression(range(1, len(values) + 1), values).slope


def spearman(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the rank correlation; ties share their mean rank, and what is all ties has none."""
    from scipy.stats import spearmanr  # slow to load, and tables and figures of runs do without

    return float(spearmanr(x, y).statistic) if len(set(x)) > 1 < len(set(y)) else 0.0


def layer_means(curves: Sequence[Sequence[float]]) -> dict[str, float]:
    """Return the mean over curves by layer; layers are text, from "1", as JSON wants its keys."""
    return {str(layer): fmean(of_layer) for layer, of_layer in enumerate(zip(*curves, strict=True), 1)}


def hull(intervals: Sequence[Interval]) -> Interval:
    """Return the smallest interval around all of them; unbounded if there are none."""
    if not intervals:
        return -math.inf, math.inf
    return min(low for low, _ in intervals), max(high for _, high in intervals)
