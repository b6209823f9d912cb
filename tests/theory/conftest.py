"""Small measurements that the tests of the checks share: the honest model's, and what a broken one makes of them."""

from collections.abc import Callable
from typing import Any

import pytest

from ln_repro.theory.judge import judge
from ln_repro.theory.plan import MEASURES
from ln_repro.theory.unit import Measured, Unit

Run = Callable[..., Measured]
Finding = dict[str, Any]


@pytest.fixture
def measure() -> Run:
    """Return a function that measures ``what`` under given settings, over seeds 1, 2, ..."""

    def run(what: str, seeds: int, **settings: object) -> Measured:
        units = [Unit.of(what, seed, **settings) for seed in range(1, seeds + 1)]
        return [(unit, MEASURES[what](unit)) for unit in units]

    return run


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
