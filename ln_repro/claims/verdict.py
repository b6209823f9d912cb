"""Verdicts, and how intervals and several verdicts lead to one."""

import math
from collections.abc import Iterable, Sequence
from statistics import fmean

from ln_repro.claims.intervals import Interval, standard_error

REPRODUCED, CONTRADICTED, INCONCLUSIVE = "reproduced", "contradicted", "inconclusive"
NOT_RUN = "not-run"
"""An arm that the rule needs has no run."""


def verdict(interval: Interval, region: Interval, contradicted: Interval | None = None) -> str:
    """Return the verdict on an interval.

    Reproduced inside the region; contradicted inside the region ``contradicted``, or if there is none, entirely outside
    the first; otherwise inconclusive.
    """
    if inside(interval, region):
        return REPRODUCED
    denied = inside(interval, contradicted) if contradicted else outside(interval, region)
    return CONTRADICTED if denied else INCONCLUSIVE


def inside(interval: Interval, region: Interval) -> bool:
    """Return whether an interval lies in a region without its lower end: a difference of 0 is not above 0."""
    return (region[0] < interval[0] or region[0] == -math.inf) and interval[1] <= region[1]


def outside(interval: Interval, region: Interval) -> bool:
    """Return whether an interval and a region have no value in common."""
    return interval[1] < region[0] or region[1] < interval[0]


def near(values: Sequence[float], region: Interval) -> str:
    """Return reproduced if the mean lies within four standard errors of the region, otherwise contradicted."""
    tolerance, mean = 4 * standard_error(values), fmean(values)
    return REPRODUCED if region[0] - tolerance <= mean <= region[1] + tolerance else CONTRADICTED


def all_of(parts: Iterable[str]) -> str:
    """Return the worst verdict, for a rule whose parts must all hold; inconclusive without parts."""
    verdicts = set(parts) or {INCONCLUSIVE}
    return next((word for word in (CONTRADICTED, INCONCLUSIVE) if word in verdicts), REPRODUCED)


def any_of(parts: Sequence[str]) -> str:
    """Return the best verdict, for a rule of which one part must hold."""
    return next((word for word in (REPRODUCED, INCONCLUSIVE) if word in parts), CONTRADICTED)
