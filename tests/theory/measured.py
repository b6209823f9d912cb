"""Small measurements of the correct model or of a broken one, and their findings."""

from typing import Any

from ln_repro.theory.judge import judge
from ln_repro.theory.measurements import MEASURES
from ln_repro.theory.unit import Measured, Unit

Finding = dict[str, Any]


def measure(what: str, seeds: int, **settings: object) -> Measured:
    """Measure ``what`` under given settings, over seeds 1, 2, ..."""
    units = [Unit.of(what, seed, **settings) for seed in range(1, seeds + 1)]
    return [(unit, MEASURES[what](unit)) for unit in units]


def found(id: str, measured: Measured) -> Finding:
    """Return the finding of one claim."""
    (finding,) = judge(measured, [id])
    return finding


def verdict_of(id: str, measured: Measured) -> str:
    """Return the verdict on one claim."""
    return str(found(id, measured)["verdict"])


def parts_of(finding: Finding, quantity: str) -> list[Finding]:
    """Return the parts of a finding that are about a quantity."""
    return [part for part in finding["parts"] if part["quantity"] == quantity]
