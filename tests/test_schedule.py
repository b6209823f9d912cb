"""The rate of every update against the closed forms of the paper, written out a second time."""

import math
from collections.abc import Callable

import pytest

from ln_repro.schedule import LearningRate

PEAK = 5e-4
UPDATES = range(1, 20_001)
PER_EPOCH = 1100
STEP_EPOCH = 8


@pytest.mark.parametrize(
    ("warmup_updates", "decay", "anchor", "expected"),
    [
        (4000, "inverse_sqrt", 4000, lambda t: min(t / 4000, math.sqrt(4000 / t))),
        (500, "inverse_sqrt", 4000, lambda t: min(t / 500, math.sqrt(500 / t))),
        (1, "inverse_sqrt", 4000, lambda t: min(t, math.sqrt(1 / t))),
        (0, "anchored", 4000, lambda t: min(1, math.sqrt(4000 / t))),
        (0, "anchored", 1000, lambda t: min(1, math.sqrt(1000 / t))),
        (0, "constant", 4000, lambda t: 1),
        (400, "constant", 4000, lambda t: min(1, t / 400)),
        (0, "step", 4000, lambda t: 1 if t <= STEP_EPOCH * PER_EPOCH else 0.1),
    ],
)
def test_every_update_has_the_rate_of_the_closed_form(
    warmup_updates: int, decay: str, anchor: int, expected: Callable[[int], float]
) -> None:
    rate = LearningRate(PEAK, warmup_updates, decay, anchor, STEP_EPOCH)
    for update in UPDATES:
        epoch = (update - 1) // PER_EPOCH + 1
        assert math.isclose(rate.at(update, epoch), PEAK * expected(update), rel_tol=1e-12), update


@pytest.mark.parametrize("decay", ["constant", "anchored", "step"])
def test_update_1_is_never_at_rate_0(decay: str) -> None:
    assert LearningRate(PEAK, 0, decay, 4000, STEP_EPOCH).at(1, 1) == PEAK
    for warmup_updates in (1, 2, 4000):
        assert LearningRate(PEAK, warmup_updates, decay, 4000, STEP_EPOCH).at(1, 1) == PEAK / warmup_updates > 0


def test_anchored_is_the_tail_of_the_ramp_that_was_taken_away() -> None:
    warm, anchored = (LearningRate(PEAK, *axes, 4000, STEP_EPOCH) for axes in ((4000, "inverse_sqrt"), (0, "anchored")))
    assert all(warm.at(t, 1) == anchored.at(t, 1) for t in range(4000, 20_001))
    assert all(warm.at(t, 1) < anchored.at(t, 1) for t in range(1, 4000))


def test_an_unknown_tail_is_an_error() -> None:
    with pytest.raises(ValueError, match="cosine"):
        LearningRate(PEAK, 0, "cosine", 4000, STEP_EPOCH).at(1, 1)
