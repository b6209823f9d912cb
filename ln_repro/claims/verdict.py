"""Verdicts, and how intervals and several verdicts lead to one."""

from collections.abc import Iterable, Sequence
from statistics import fmean

from ln_repro.claims.intervals import Interval, standard_error

REPRODUCED, CONTRADICTED, INCONCLUSIVE = "reproduced", "contradicted", "inconclusive"
NOT_RUN = "not-run"
"""There are no runs."""


def verdict(interval: Interval, region: Interval) -> str:
    """Return the verdict on an interval: inside the region, entirely outside, or partly inside (inconclusive)."""
    (low, high), (least, most) = interval, region
    if least <= low and high <= most:
        return REPRODUCED
    return CONTRADICTED if high < least or most < low else INCONCLUSIVE


def near(values: Sequence[float], region: Interval) -> str:
    """Return whether the mean lies within four standard errors of the region."""
    tolerance, mean = 4 * standard_error(values), fmean(values)
    return REPRODUCED if region[0] - tolerance <= mean <= region[1] + tolerance else CONTRADICTED


def all_of(parts: Iterable[str]) -> str:
    """Return the worst verdict, for a rule whose parts must all hold; inconclusive without parts."""
    verdicts = set(parts) or {INCONCLUSIVE}
    return next((word for word in (CONTRADICTED, INCONCLUSIVE) if word in verdicts), REPRODUCED)


def any_of(parts: Sequence[str]) -> str:
    """Return the best verdict, for a rule of which one part must hold."""
    return next((word for word in (REPRODUCED, INCONCLUSIVE) if word in parts), CONTRADICTED)
