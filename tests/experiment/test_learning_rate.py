"""The rate of every update against an independent form of the paper's formulas."""

import math

import pytest

from ln_repro.experiment.learning_rate import LearningRate

PEAK = 5e-4
STEP = 8000


@pytest.mark.parametrize(("warmup_updates", "decay", "anchor", "expected"), [
    (4000, "inverse_sqrt", 4000, lambda t: min(t / 4000, math.sqrt(4000 / t))),
    (1, "inverse_sqrt", 4000, lambda t: min(t, math.sqrt(1 / t))),
    (0, "anchored", 1000, lambda t: min(1, math.sqrt(1000 / t))),
    (0, "literal", 4000, lambda t: 1 / math.sqrt(t)),
    (400, "constant", 4000, lambda t: min(1, t / 400)),
    (0, "linear", 4000, lambda t: 1 - (t - 1) / 20_000),
    (4000, "step", 4000, lambda t: t / 4000 if t < 4000 else 1 if t <= STEP else 0.1),
    (0, "step_inverse_sqrt", 4000, lambda t: min(1, math.sqrt(STEP / t))),
])  # fmt: skip
def test_every_update_has_the_rate_of_the_closed_form(warmup_updates, decay, anchor, expected):
    of_run = LearningRate(PEAK, warmup_updates, decay, anchor, STEP, total=20_000)
    tail = of_run.without_ramp()
    for update in range(1, 20_001):
        assert math.isclose(of_run.at(update), PEAK * expected(update), rel_tol=1e-12), update
        full = 1 if update <= warmup_updates else expected(update)
        assert math.isclose(tail.at(update), PEAK * full, rel_tol=1e-12), update
    assert math.isclose(of_run.sum(), PEAK * sum(map(expected, range(1, 20_001))), rel_tol=1e-9)
