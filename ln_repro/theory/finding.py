"""What a check of the theory found."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ln_repro.statistics import Interval, hull
from ln_repro.verdict import together


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
