"""Verdicts: what an interval allows one to say of a rule."""

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


def together(parts: Iterable[str], seeds: int, minimum: int) -> str:
    """Judge a compound rule: every part has to hold, one that is contradicted decides; too few seeds decide nothing."""
    found = set(parts)
    if seeds < minimum or not found:
        return INCONCLUSIVE
    return next((word for word in (CONTRADICTED, INCONCLUSIVE) if word in found), REPRODUCED)


def all_of(found: Iterable[str]) -> str:
    """Judge what has several parts that all have to hold: one that is contradicted decides."""
    verdicts = set(found)
    return next((word for word in (CONTRADICTED, INCONCLUSIVE) if word in verdicts), REPRODUCED)


def any_of(found: Sequence[str]) -> str:
    """Judge what one of several parts has to meet: the best of them decides."""
    return next((word for word in (REPRODUCED, INCONCLUSIVE) if word in found), CONTRADICTED)
