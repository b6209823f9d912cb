"""LR50 against its posterior over intercept and slope, its censored ends, and the ratios of the 2x2."""

import math

import pytest

from ln_repro.claims.lr50 import CELLS, lr50
from tests.claims import recomputed
from tests.claims.made import held
from tests.committed import archive


@pytest.mark.parametrize("arm", [arm for arms in CELLS.values() for arm in arms])
def test_the_lr50_of_the_committed_runs_is_that_of_a_grid_over_intercept_and_slope(arm):
    limit = lr50(archive().evidence["toy"], arm)
    if math.isinf(limit.median):
        assert all(hits == runs for hits, runs in limit.counts.values())
        return
    low, median, high = recomputed.lr50({rate: tuple(count) for rate, count in limit.counts.items()})
    assert (limit.median, *limit.interval) == pytest.approx((median, low, high), rel=0.02)


def test_only_rates_from_the_best_one_on_count():
    """At the lowest rate the arm is under-trained, which says nothing about the highest that it can take."""
    arms = {"postln_warm": {1e-3: [5.0] * 5, 2e-3: [30.0] * 5, 4e-3: [30.0] * 5, 8e-3: [0.0] * 5}}
    evidence = held(arms)
    for rate, runs in evidence.rates["postln_warm"].items():
        for run in runs.values():
            run.record.epochs[-1].valid_loss = abs(rate - 2e-3)
    found = lr50(evidence, "postln_warm")
    assert [*found.counts] == [2e-3, 4e-3, 8e-3]
    assert 4e-3 < found.interval[0] < found.median < found.interval[1] < 8e-3
    assert found.median == pytest.approx(math.sqrt(4e-3 * 8e-3), rel=0.01)


def test_arms_that_always_or_never_train_have_one_known_end():
    arms = {"postln_warm": {1e-3: [30.0] * 5, 2e-3: [30.0] * 5}, "postln_nowarm": {1e-3: [0.0] * 5, 2e-3: [0.0] * 5},
            "preln_warm": {1e-3: [30.0] * 5, 2e-3: [0.0] * 5}}  # fmt: skip
    always, never, mixed = (lr50(held(arms), arm) for arm in arms)
    assert (always.median, always.interval) == (math.inf, (2e-3, math.inf))
    assert (never.median, never.interval) == (0.0, (0.0, 1e-3))
    assert always.over(never) == (math.inf, (2.0, math.inf))
    median, (low, high) = always.over(mixed)
    assert math.isinf(median) and math.isinf(high) and low == pytest.approx(2e-3 / mixed.interval[1])
    assert math.isnan(mixed.over(always)[0])
    median, (low, high) = mixed.over(mixed)
    assert median == pytest.approx(1, rel=1e-6) and low == pytest.approx(1 / high)
    assert lr50(held(arms), "rezero_warm") is None
