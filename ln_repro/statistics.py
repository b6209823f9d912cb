"""Intervals over seeds: Student's, at 95 %, of means, ratios and fitted exponents; and rank correlation."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, linear_regression, stdev

from scipy.special import stdtrit

Interval = tuple[float, float]
LEVEL = 0.95
TOO_LARGE = 700.0
"""For `math.exp`."""


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the mean; infinite for fewer than two values."""
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.inf


def mean_interval(values: Sequence[float]) -> Interval:
    """Return the Student interval of the mean; unbounded for fewer than two values."""
    if len(values) < 2:
        return -math.inf, math.inf
    half = float(stdtrit(len(values) - 1, (1 + LEVEL) / 2)) * standard_error(values)
    return fmean(values) - half, fmean(values) + half


def prediction_interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """Return where one more value of the same normal distribution lies with probability ``level``."""
    reach = float(stdtrit(len(values) - 1, (1 + level) / 2)) * stdev(values) * math.sqrt(1 + 1 / len(values))
    return fmean(values) - reach, fmean(values) + reach


def ratio_interval(ratios: Sequence[float]) -> Interval:
    """Return the interval of the geometric mean of positive ratios."""
    low, high = mean_interval([math.log(ratio) for ratio in ratios])
    return math.exp(low), math.exp(high) if high < TOO_LARGE else math.inf


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
