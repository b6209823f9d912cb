"""Learning-rate sensitivity of an arm (after Wortsman et al. 2023), its interval by resampling seeds within rates."""

import math
from collections.abc import Mapping, Sequence
from random import Random
from statistics import fmean, quantiles

from ln_repro.claims.intervals import Interval

SAMPLES = 1000
LEAST_RATES = 3
"""A curve over fewer rates has no sensitivity."""


def sensitivity(curve: Mapping[float, Sequence[float]], ceiling: float) -> float:
    """Return the mean over rates of the loss there minus the loss at the best rate, in bits.

    Args:
        curve: by rate, the NLL of every seed.
        ceiling: the largest loss that counts: the entropy of a model that never sees the source.
    """
    means = [fmean(min(value, ceiling) for value in values) for values in curve.values()]
    return fmean(means) - min(means)


def sensitivity_interval(curve: Mapping[float, Sequence[float]], ceiling: float) -> Interval:
    """Return the 95 % percentile interval of the bootstrap over seeds; unbounded where a rate has a single one."""
    if any(len(values) < 2 for values in curve.values()):
        return -math.inf, math.inf
    draw = Random(0)
    cut = quantiles(
        (sensitivity({rate: draw.choices(values, k=len(values)) for rate, values in curve.items()}, ceiling)
         for _ in range(SAMPLES)), n=40,
    )  # fmt: skip
    return cut[0], cut[-1]
