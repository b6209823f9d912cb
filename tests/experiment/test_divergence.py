"""The rule that tells a lost run from a slow one."""

from collections import Counter
from pathlib import Path

import pytest

from ln_repro.experiment.divergence import stuck
from ln_repro.records.archive import read_kept

ENTROPY, RAMP, UPDATES, EPOCH = 6.0, 100, 400, 441
RECORDS = Path(__file__).parents[2] / "results" / "records"


def given_up(losses, ramp=RAMP, updates=UPDATES):
    """Return the epoch after which a run is stopped early, with the reason; None if it is not stopped."""
    validations = [(EPOCH * epoch, loss) for epoch, loss in enumerate(losses, 1)]
    for epoch in range(1, len(losses) + 1):
        if said := stuck(validations[:epoch], ENTROPY, ramp, updates):
            return epoch, said
    return None


def test_a_loss_that_stays_above_the_entropy_is_stuck_at_the_second_validation():
    epoch, said = given_up([7.0, 7.01, 6.99])
    assert epoch == 2 and "\n" not in said
    assert (
        "above the unigram entropy of 6.00 bits for 441 updates after the ramp (7.01 bits), and does not fall" in said
    )


@pytest.mark.parametrize(
    ("losses", "epoch"),
    [
        ([6.0, 7.4, 8.9], 2),  # rises
        ([5.2, 7.9, 8.4], 3),  # had learnt something, and lost it
        ([6.0, 5.98], 2),  # words' frequencies, and nothing else
    ],
)
def test_what_does_not_fall_is_stuck_wherever_it_began(losses, epoch):
    assert given_up(losses)[0] == epoch


@pytest.mark.parametrize("losses", [[], [6.92, 6.82, 6.73], [2.0, 2.5, 3.0]])
def test_what_falls_slowly_and_what_has_learnt_more_are_not_stuck(losses):
    assert given_up(losses) is None


def test_the_ramp_does_not_count():
    assert given_up([9.0] * 4, ramp=EPOCH)[0] == 3
    assert given_up([9.0] * 4, ramp=EPOCH - 1)[0] == 2


def test_validations_are_compared_over_as_many_updates_as_asked_for():
    assert given_up([9.0] * 5, updates=2 * EPOCH)[0] == 3
    assert given_up([9.0] * 5, updates=5 * EPOCH) is None
    assert given_up([7.0, 6.97, 6.94, 6.91, 6.88], updates=2 * EPOCH) is None  # slow, but it falls


def test_committed_runs_of_adam_that_end_above_the_entropy_are_stuck_and_those_of_slow_sgd_are_not():
    """Post-LN's loss without warm-up rises to 6.4 bits or more with Adam; with SGD at 0.02 or less it still falls."""
    kept, found = read_kept(RECORDS), Counter()
    for record in kept.records:
        entropy = kept.corpora[record["data"]["fingerprint"]]["unigram_bits"]
        validations = [(row["update"], row["valid_nll_loss"]) for row in record["epochs"]]
        ramp, optimizer, rate = (record["axes"][axis] for axis in ("warmup_updates", "optimizer", "lr"))
        adam = record["exp"] in ("toy_postln_nowarm", "toy_postln_nowarm_high")
        slow_sgd = record["exp"].startswith("toy_") and optimizer == "sgd" and rate <= 0.02
        if (adam or slow_sgd) and validations and validations[-1][1] > entropy:
            told = [stuck(validations[:count], entropy, ramp, UPDATES) for count in range(1, len(validations) + 1)]
            found[optimizer] += 1
            assert any(told) == adam, record["id"]
    assert min(found["adam"], found["sgd"]) > 3
