"""Small measurements of the correct model or of a broken one, and the finding of one claim."""

from typing import Any

from ln_repro.theory.judge import judge
from ln_repro.theory.measurements import MEASURES
from ln_repro.theory.unit import Measured, Unit

Finding = dict[str, Any]


def measure(what: str, seeds: int, **settings: object) -> Measured:
    """Measure ``what`` under given settings, over seeds 1, 2, ..."""
    units = [Unit.of(what, seed, **settings) for seed in range(1, seeds + 1)]
    return [(unit, MEASURES[what](unit)) for unit in units]


def finding_of(id: str, measured: Measured) -> Finding:
    (finding,) = judge(measured, [id])
    return finding


def part_of(finding: Finding, quantity: str) -> Finding:
    """Return the only part of a finding that is about a quantity."""
    (part,) = [part for part in finding["parts"] if part["quantity"] == quantity]
    return part
