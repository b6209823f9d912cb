"""The room that a run's checkpoints are asked for before it begins."""

from types import SimpleNamespace

import pytest

from ln_repro.runner.run import room_for
from ln_repro.system.files import MEGABYTE
from tests.examples import experiment


@pytest.mark.parametrize(
    ("changes", "epochs"),
    [
        ({"max_update": 1000, "max_epoch": 7}, 7),
        ({"max_update": 1000, "batches_per_update": 5}, 200),
        ({"max_update": 1000, "max_tokens": 10**6}, 1000),
    ],
)
def test_every_epoch_keeps_its_weights_and_has_only_the_fullest_mini_batches(changes, epochs):
    corpus = SimpleNamespace(vocabulary=100, target_tokens=100_000)
    runs = (experiment(train={"max_tokens": 4000} | given) for given in (changes, {"max_epoch": 1}))
    many, one = (room_for(run, corpus) for run in runs)
    assert (many - 10 * MEGABYTE) / (one - 10 * MEGABYTE) == pytest.approx((epochs + 9) / (1 + 9))
