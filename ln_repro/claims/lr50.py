"""LR50, the peak learning rate at which half of an arm's seeds train, and its 2x2.

A run trains or not, so that the mean of its BLEU says little where some seeds train; the rate at which half of them do
is a number with an interval. It is the upper one: at low rates an arm may be under-trained, which is another matter.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from ln_repro.claims.evidence import Evidence, Rate
from ln_repro.claims.intervals import Interval
from ln_repro.claims.metrics import Count, Effect
from ln_repro.claims.rates import CURVE_SEEDS, lowest_loss

STEEPEST = 10.0
"""Largest slope in the regression, per octave of the rate: from 99 % of the seeds to 1 % within an octave."""
BEYOND = 3.0  # LR50 is assumed to be at most so many octaves outside the rates run
POINTS, SLOPES = 1000, 100  # size of the grid on which the posterior is computed
TAILS = np.array([0.025, 0.5, 0.975])
FACTORS = {
    "warm-up over none, Post-LN": ("postln_warm", "postln_nowarm"),
    "warm-up over none, Pre-LN": ("preln_warm", "preln_nowarm_anchored"),
    "Pre-LN over Post-LN, no warm-up": ("preln_nowarm_anchored", "postln_nowarm"),
    "Pre-LN over Post-LN, warm-up": ("preln_warm", "postln_warm"),
}
"""The four ratios of the 2x2: what multiplies LR50, and the two arms."""
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Lr50:
    """The LR50 of an arm with its 95 % interval.

    It is infinite if all seeds train at all rates from the best one on, so that LR50 is above the highest, and 0 if
    none trains, so that it is below the lowest.
    """

    median: float
    interval: Interval
    counts: Mapping[Rate, Count]  # of the seeds that train, from the best rate on
    quantiles: Values  # of the posterior of log2 LR50, equally spaced; empty if it is infinite or 0

    def over(self, other: "Lr50") -> Effect | None:
        """Return the ratio to another LR50, or a bound on it; None if neither shows which of the two is higher."""
        if len(self.quantiles) and len(other.quantiles):
            ratios = np.subtract.outer(self.quantiles, other.quantiles)
            low, median, high = (float(2**value) for value in np.quantile(ratios, TAILS))
            return Effect(median, (low, high), "x{}", ".2g")
        low = self.interval[0] / other.interval[1]
        high = self.interval[1] / other.interval[0] if other.interval[0] else math.inf
        return None if low <= 1 <= high else Effect(math.inf if low > 1 else -math.inf, (low, high), "x{}", ".2g")


def arms_of(scheme: str) -> tuple[str, str]:
    """Return the arms of a scheme without and with warm-up; of two without, the one with the same tail as with it."""
    return f"{scheme}_nowarm{'_anchored' if scheme == 'preln' else ''}", f"{scheme}_warm"


def lr50(evidence: Evidence, arm: str, control: str = "", seeds: int = 1) -> Lr50 | None:
    """Return the LR50 of an arm; None if it was not run.

    A logistic regression of trained (0 or 1) on log2(rate), from the rate of the lowest mean validation loss on, with
    a flat prior on both coefficients. Where no run trains, all rates count or, with the name of a ``control``, those
    from the lowest one at which it trains: below, training may be too short. Rates with fewer than ``seeds`` seeds are
    left out if others have them.
    """
    curve = evidence.curve(arm)
    curve = {rate: runs for rate, runs in curve.items() if len(runs) >= seeds} or curve
    if not curve:
        return None
    counts = {rate: Count.of(evidence.trained, runs) for rate, runs in curve.items()}
    trains = any(count.hits for count in counts.values())
    begin = lowest_loss(curve) if trains else lowest_trained(evidence, control)
    counts = {rate: count for rate, count in counts.items() if rate >= begin} or counts
    if all(count.hits == count.runs for count in counts.values()):
        return Lr50(math.inf, (max(counts), math.inf), counts, np.empty(0))
    if not any(count.hits for count in counts.values()):
        return Lr50(0.0, (0.0, min(counts)), counts, np.empty(0))
    quantiles = posterior(tuple(counts.items()))
    low, median, high = (float(2**value) for value in np.quantile(quantiles, TAILS, method="weibull"))
    return Lr50(median, (low, high), counts, quantiles)


def shown_lr50(evidence: Evidence, arm: str) -> Lr50 | None:
    """Return an arm's LR50 as tables and figures show it; rules have no control, and count every rate.

    The control is the arm with warm-up, and a rate has at least `CURVE_SEEDS` seeds.
    """
    return lr50(evidence, arm, arm.replace("_nowarm", "_warm").removesuffix("_anchored"), CURVE_SEEDS)


def lowest_trained(evidence: Evidence, arm: str) -> Rate:
    """Return the lowest rate at which a seed of an arm trains; 0 if none does."""
    return min((rate for rate, runs in evidence.curve(arm).items() if any(map(evidence.trained, runs))), default=0.0)


@cache
def posterior(counts: tuple[tuple[Rate, Count], ...]) -> Values:
    """Return equally spaced quantiles of the posterior of log2 LR50, given how many seeds train at each rate."""
    rates = np.log2([rate for rate, _ in counts])
    places = np.linspace(rates.min() - BEYOND, rates.max() + BEYOND, POINTS)[:, None]
    slopes = np.linspace(0, STEEPEST, SLOPES + 1)[1:]
    # A prior that is flat in slope and intercept, slope x place, is in slope and place proportional to the slope.
    likelihood = np.log(slopes) + np.zeros_like(places)
    for rate, (_, count) in zip(rates, counts, strict=True):
        logit = slopes * (places - rate)
        likelihood += count.hits * log_expit(logit) + (count.runs - count.hits) * log_expit(-logit)
    weights = np.exp(likelihood - likelihood.max()).sum(axis=1)
    shares = np.linspace(0, 1, 501)[1:-1]
    below = np.cumsum(weights) - weights / 2  # each place stands for as much on either side
    return np.interp(shares, below / weights.sum(), places[:, 0])
