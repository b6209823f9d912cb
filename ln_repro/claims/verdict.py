"""Verdicts: whether an interval confirms a rule."""

from collections.abc import Iterable, Sequence
from statistics import fmean

from ln_repro.claims.intervals import Interval, standard_error

REPRODUCED, CONTRADICTED, INCONCLUSIVE = "reproduced", "contradicted", "inconclusive"
NOT_RUN = "not-run"
"""No evidence at all."""


def verdict(interval: Interval, region: Interval) -> str:
    """Judge by where the interval lies: inside the region, wholly outside, or neither."""
    (low, high), (least, most) = interval, region
    if least <= low and high <= most:
        return REPRODUCED
    return CONTRADICTED if high < least or most < low else INCONCLUSIVE


def near(values: Sequence[float], region: Interval, errors: float = 4.0) -> str:
    """Judge whether the mean lies within so many standard errors of the region."""
    reach, mean = errors * standard_error(values), fmean(values)
    return REPRODUCED if region[0] - reach <= mean <= region[1] + reach else CONTRADICTED


def all_of(parts: Iterable[str]) -> str:
    """Judge a rule whose parts all have to hold: the worst of them decides; no parts decide nothing."""
    found = set(parts) or {INCONCLUSIVE}
    return next((word for word in (CONTRADICTED, INCONCLUSIVE) if word in found), REPRODUCED)


def any_of(found: Sequence[str]) -> str:
    """Judge a rule of whose parts one has to hold: the best of them decides."""
    return next((word for word in (REPRODUCED, INCONCLUSIVE) if word in found), CONTRADICTED)
