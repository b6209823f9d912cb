"""Learning-rate sensitivity of an arm (after Wortsman et al. 2023), with a bootstrap interval over seeds."""

import math
from collections.abc import Mapping, Sequence
from random import Random
from statistics import fmean, quantiles

from ln_repro.claims.evidence import Evidence
from ln_repro.claims.intervals import Interval

SAMPLES = 1000
LEAST_RATES = 3
"""Minimum number of rates for which a sensitivity is reported."""


def sensitivity(curve: Mapping[float, Sequence[float]], ceiling: float) -> float:
    """Return the mean loss over the rates minus that of the best rate, in bits, with losses clipped to ``ceiling``.

    The ceiling is the entropy of a model that ignores the source.
    """
    means = [fmean(min(value, ceiling) for value in values) for values in curve.values()]
    return fmean(means) - min(means)


def sensitivity_interval(curve: Mapping[float, Sequence[float]], ceiling: float) -> Interval:
    """Return the 95 % bootstrap percentile interval over seeds; unbounded if some rate has only one seed."""
    if any(len(values) < 2 for values in curve.values()):
        return -math.inf, math.inf
    draw = Random(0)
    cut = quantiles(
        (sensitivity({rate: draw.choices(values, k=len(values)) for rate, values in curve.items()}, ceiling)
         for _ in range(SAMPLES)), n=40,
    )  # fmt: skip
    return cut[0], cut[-1]


def arm_sensitivity(evidence: Evidence, arm: str) -> tuple[float, Interval] | None:
    """Return the sensitivity of an arm with its interval; None if too few rates were run, or the ceiling is unknown."""
    curve = {rate: [run.nll for run in runs] for rate, runs in evidence.curve(arm).items()}
    ceiling = evidence.entropies.get("source_blind_bits")
    if len(curve) < LEAST_RATES or ceiling is None:
        return None
    return sensitivity(curve, ceiling), sensitivity_interval(curve, ceiling)
