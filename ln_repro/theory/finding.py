"""What a check found, and the verdict that an interval allows (docs: the registry's verdict rules)."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from ln_repro.theory.statistics import Interval, hull, standard_error

REPRODUCED, CONTRADICTED, INCONCLUSIVE = "reproduced", "contradicted", "inconclusive"


@dataclass(frozen=True)
class Finding:
    """One claim beside what was measured.

    Args:
        id: of the claim in the registry.
        statement: the claim, in words.
        paper: what the paper says, in words.
        values: the numbers measured, JSON-able.
        quantity: what the interval is of.
        interval: the interval that was judged; around all of them if there are several.
        rule: what had to hold, in words.
        verdict: ``reproduced``, ``contradicted`` or ``inconclusive``.
        seeds: over how many draws.
    """

    id: str
    statement: str
    paper: str
    values: dict[str, Any]
    quantity: str
    interval: Interval
    rule: str
    verdict: str
    seeds: int

    def as_dict(self) -> dict[str, Any]:
        """Return the finding for JSON; a number that is not finite is null."""
        return {name: _plain(value) for name, value in vars(self).items()}


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


@dataclass
class Tally:
    """Gathers what a claim came to in one setting after another."""

    values: dict[str, Any] = field(default_factory=dict)
    intervals: list[Interval] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)

    def add(self, label: str, values: dict[str, Any], interval: Interval, parts: Iterable[str], seeds: int) -> None:
        """Take in one setting: its numbers, the interval judged, the verdicts on it, and over how many draws."""
        self.values[label] = values
        self.intervals.append(interval)
        self.parts += parts
        self.seeds.append(seeds)

    def finding(self, id: str, statement: str, paper: str, quantity: str, rule: str, minimum: int) -> Finding:
        """Return the finding: the rule has to hold in every setting, over at least ``minimum`` draws."""
        seeds = min(self.seeds, default=0)
        found = together(self.parts, seeds, minimum)
        return Finding(id, statement, paper, self.values, quantity, hull(self.intervals), rule, found, seeds)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
