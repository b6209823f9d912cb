"""Small measurements that the judges' tests share: the honest model's, and what a broken one makes of them."""

from collections.abc import Callable

import pytest

from ln_repro.theory.plan import MEASURES
from ln_repro.theory.unit import Measured, Unit

Run = Callable[..., Measured]


@pytest.fixture
def measure() -> Run:
    """Return a function that measures ``what`` under given settings, over seeds 1, 2, ..."""

    def run(what: str, seeds: int, **settings: object) -> Measured:
        units = [Unit.of(what, seed, **settings) for seed in range(1, seeds + 1)]
        return [(unit, MEASURES[what](unit)) for unit in units]

    return run
