"""The learning-rate sensitivity of arms (after Wortsman et al. 2023)."""

import math
from collections.abc import Collection, Mapping, Sequence
from random import Random

import numpy as np
from numpy.typing import NDArray

from ln_repro.claims.evidence import Evidence, Rate
from ln_repro.claims.intervals import SAMPLES, Interval
from ln_repro.claims.ranges import usable_curve

Means = NDArray[np.float64]
LEAST_RATES = 3
"""Minimum number of rates for which a sensitivity is reported."""


def sensitivity(curve: Mapping[float, Sequence[float]], rates: Collection[float], most: float) -> float:
    """Return the learning-rate sensitivity in bits.

    It is the mean loss over the logarithm of the rate (trapezoidal rule, so that it does not depend on how densely the
    rates were chosen) minus the loss at the best rate of the whole curve, with losses clipped to ``most``, the entropy
    of a model that ignores the source.
    """
    means = {rate: np.minimum(values, most).mean(keepdims=True) for rate, values in curve.items()}
    return float(_sensitivities(means, rates)[0])


def _sensitivities(means: Mapping[float, Means], rates: Collection[float]) -> Means:
    """Return the sensitivity for each of several mean losses by rate."""
    compared = sorted(rates)
    losses = np.array([means[rate] for rate in compared]) - np.min([*means.values()], axis=0)
    area = np.trapezoid(losses, np.log(compared), axis=0)
    return np.asarray(area / np.log(compared[-1] / compared[0]))


def sensitivity_interval(curve: Mapping[float, Sequence[float]], rates: Collection[float], most: float) -> Interval:
    """Return the 95 % bootstrap percentile interval over seeds; unbounded if some rate has only one seed."""
    if any(len(values) < 2 for values in curve.values()):
        return -math.inf, math.inf
    draw, sizes = Random(0), [len(values) for values in curve.values()]
    drawn = np.array([draw.random() for _ in range(SAMPLES * sum(sizes))]).reshape(SAMPLES, -1)
    means = {rate: np.minimum(values, most)[(part * len(values)).astype(int)].mean(axis=1)
             for (rate, values), part in zip(curve.items(), np.split(drawn, np.cumsum(sizes)[:-1], axis=1),
                                             strict=True)}  # fmt: skip
    low, high = np.quantile(_sensitivities(means, rates), [0.025, 0.975], method="weibull")
    return float(low), float(high)


def shared_rates(evidence: Evidence, arms: Sequence[str]) -> set[Rate]:
    """Return the rates shared by all arms that were run at `LEAST_RATES` rates or more."""
    curves = [{*curve} for arm in arms if len(curve := evidence.curve(arm)) >= LEAST_RATES]
    return set.intersection(*curves) if curves else set()


def arm_sensitivity(evidence: Evidence, arm: str, rates: Collection[Rate]) -> tuple[float, Interval] | None:
    """Return the sensitivity of an arm over some rates, with its interval.

    Return None if there are fewer than `LEAST_RATES`, if the arm lacks one of them, if no run of it trains,
    or if the entropy is unknown.
    """
    runs, most = evidence.curve(arm), evidence.entropies.get("source_blind_bits")
    if len(rates) < LEAST_RATES or not {*rates} <= {*runs} or most is None:
        return None
    counted = {rate: runs[rate] for rate in rates} | usable_curve(evidence, arm)
    if not any(evidence.trained(run) for of_rate in counted.values() for run in of_rate):
        return None
    curve = {rate: [run.nll for run in of_rate] for rate, of_rate in counted.items()}
    return sensitivity(curve, rates, most), sensitivity_interval(curve, rates, most)
