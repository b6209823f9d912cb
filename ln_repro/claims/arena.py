"""Every scheme under one protocol: same data, length and learning rates, with and without warm-up."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean

import numpy as np

from ln_repro.claims.evidence import Evidence, Rate
from ln_repro.claims.intervals import SAMPLES, UNBOUNDED, Interval
from ln_repro.claims.lr50 import Lr50, arms_of, shown_lr50
from ln_repro.claims.metrics import NLL, Effect
from ln_repro.claims.rates import Range, best_rate, usable_curve, usable_range
from ln_repro.experiment.name import ArmName

LEAST_RATES = 3  # minimum number of rates for which a sensitivity is reported
LEAST_SCHEMES = 3  # minimum number of schemes to show; Pre-LN and Post-LN alone are compared by the arms and the rates
REFERENCE = "preln"  # the scheme whose cost is 1


@dataclass(frozen=True)
class Entry:
    """The results of a scheme; those at the best rate are of the arm and the rate with its lowest mean loss."""

    scheme: str  # its name in `conf/norm`
    without: Range | None  # the usable range without warm-up; None if it trains at no rate
    with_ramp: Range | None
    limit: Lr50 | None  # LR50 without warm-up; None if it was not run
    arm: str
    rate: Rate
    nll: Effect  # at the best rate
    seeds: int
    sensitivity: float | None  # over the rates that all schemes share, without warm-up, in bits; None if unknown

    @property
    def octaves(self) -> float:
        """The width of the range without warm-up, in factors of two of the rate."""
        return self.without.octaves if self.without else -math.inf


def arena(evidence: Evidence) -> list[Entry]:
    """Return an entry for each scheme with enough seeds at some rate, the widest range without warm-up first."""
    bests = {}
    for scheme in sorted({ArmName.of(arm).scheme for arm in evidence.rates}):
        arms = [(arm, best[0], [*best[1].values()]) for arm in arms_of(scheme) if (best := best_rate(evidence, arm))]
        if arms:
            bests[scheme] = min(arms, key=lambda of_arm: fmean(run.loss for run in of_arm[2]))
    curves = [evidence.curve(arms_of(scheme)[0]) for scheme in bests]
    shared = [{*curve} for curve in curves if len(curve) >= LEAST_RATES]
    rates = set.intersection(*shared) if shared else set[Rate]()
    entries = []
    for scheme, (arm, rate, runs) in bests.items():
        without, with_ramp = arms_of(scheme)
        sensitivity, _ = arm_sensitivity(evidence, without, rates) or (None, None)
        ranges = usable_range(evidence, without), usable_range(evidence, with_ramp)
        nll = NLL.effect([run.nll for run in runs])
        entries.append(Entry(scheme, *ranges, shown_lr50(evidence, without), arm, rate, nll, len(runs), sensitivity))
    return sorted(entries, key=lambda entry: (-entry.octaves, math.isnan(entry.nll.value), entry.nll.value))


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
    return sensitivity({rate: [run.nll for run in of_rate] for rate, of_rate in counted.items()}, rates, most)


def sensitivity(
    curve: Mapping[float, Sequence[float]], rates: Collection[float], most: float
) -> tuple[float, Interval]:
    """Return the learning-rate sensitivity in bits (after Wortsman et al. 2023), with its 95 % interval.

    It is the mean loss over the logarithm of the rate (trapezoidal rule, so that it does not depend on how densely the
    rates were chosen) minus the loss at the best rate of the whole curve, with losses clipped to ``most``, the entropy
    of a model that ignores the source. The interval is the percentiles of a bootstrap over seeds; it is unbounded if
    some rate has only one seed.
    """
    losses = {rate: np.minimum(values, most) for rate, values in curve.items()}
    sizes = [len(values) for values in losses.values()]
    samples, draw = (SAMPLES if min(sizes) > 1 else 0), Random(0)
    drawn = np.array([draw.random() for _ in range(samples * sum(sizes))]).reshape(samples, sum(sizes))
    parts = zip(losses.items(), np.split(drawn, np.cumsum(sizes)[:-1], axis=1), strict=True)
    means = {
        rate: np.append(values.mean(), values[(part * len(values)).astype(int)].mean(axis=1))
        for (rate, values), part in parts
    }
    compared = sorted(rates)
    above = np.array([means[rate] for rate in compared]) - np.min([*means.values()], axis=0)
    areas = np.trapezoid(above, np.log(compared), axis=0) / np.log(compared[-1] / compared[0])
    low, high = np.quantile(areas[1:], [0.025, 0.975], method="weibull") if samples else UNBOUNDED
    return float(areas[0]), (float(low), float(high))
