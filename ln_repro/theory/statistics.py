"""Intervals over seeds: Student's, at 95 %, of means, ratios and fitted exponents; and rank correlation."""

import math
from collections.abc import Mapping, Sequence
from statistics import correlation, fmean, linear_regression, stdev

Interval = tuple[float, float]
LEVEL = 0.95


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the mean; infinite for fewer than two values."""
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.inf


def mean_interval(values: Sequence[float]) -> Interval:
    """Return the Student interval of the mean; unbounded for fewer than two values."""
    if len(values) < 2:
        return -math.inf, math.inf
    half = student_quantile(len(values) - 1) * standard_error(values)
    return fmean(values) - half, fmean(values) + half


def ratio_interval(ratios: Sequence[float]) -> Interval:
    """Return the interval of the geometric mean of positive ratios."""
    low, high = mean_interval([math.log(ratio) for ratio in ratios])
    return math.exp(low), math.exp(high)


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
    """Return the rank correlation; ties share their mean rank."""
    return correlation(_ranks(x), _ranks(y))


def layer_means(curves: Sequence[Sequence[float]]) -> dict[str, float]:
    """Return the mean over curves by layer; layers are text, from "1", as JSON wants its keys."""
    return {str(layer): fmean(of_layer) for layer, of_layer in enumerate(zip(*curves, strict=True), 1)}


def hull(intervals: Sequence[Interval]) -> Interval:
    """Return the smallest interval around all of them; unbounded if there are none."""
    if not intervals:
        return -math.inf, math.inf
    return min(low for low, _ in intervals), max(high for _, high in intervals)


def student_quantile(freedom: int, level: float = LEVEL) -> float:
    """Return t with P(abs(T) <= t) = ``level`` for Student's T with ``freedom`` degrees of freedom, by bisection."""
    low, high = 0.0, 1.0
    while _student_within(high, freedom) < level:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _student_within(middle, freedom) < level else (low, middle)
    return high


def _student_within(t: float, freedom: int) -> float:
    """Return P(abs(T) <= t): the finite sums for whole degrees of freedom (Abramowitz and Stegun, 26.7.3-4)."""
    angle = math.atan(t / math.sqrt(freedom))
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for power in range(2 + odd, freedom + 1, 2):
        total += term
        term *= math.cos(angle) ** 2 * (power - 1) / power
    total *= math.sin(angle)
    return (angle + total) * 2 / math.pi if odd else total


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]
