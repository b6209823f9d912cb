"""The rule that tells a lost run from a slow one."""

import pytest

from ln_repro.experiment.divergence import stuck

ENTROPY, RAMP, UPDATES, EPOCH = 6.0, 100, 400, 441


def epoch_of_the_end(losses, ramp=RAMP, updates=UPDATES):
    """Return the epoch after which a run is stopped early; None if it is not stopped."""
    validations = [(EPOCH * epoch, loss) for epoch, loss in enumerate(losses, 1)]
    epochs = range(1, len(losses) + 1)
    return next((epoch for epoch in epochs if stuck(validations[:epoch], ENTROPY, ramp, updates)), None)


@pytest.mark.parametrize(("losses", "changes", "epoch"), [
    ([6.0, 7.4, 8.9], {}, 2),  # rises
    ([5.2, 7.9, 8.4], {}, 3),  # had learnt something, and lost it
    ([6.0, 5.98], {}, 2),  # words' frequencies, and nothing else
    ([], {}, None),
    ([6.92, 6.82, 6.73], {}, None),  # falls slowly
    ([2.0, 2.5, 3.0], {}, None),  # has learnt more
    ([9.0] * 4, {"ramp": EPOCH}, 3),  # the ramp does not count
    ([9.0] * 4, {"ramp": EPOCH - 1}, 2),
    ([9.0] * 5, {"updates": 2 * EPOCH}, 3),  # compared over as many updates as asked for
    ([9.0] * 5, {"updates": 5 * EPOCH}, None),
    ([7.0, 6.97, 6.94, 6.91, 6.88], {"updates": 2 * EPOCH}, None),  # slow, but it falls
])  # fmt: skip
def test_a_run_is_stuck_once_its_loss_has_stayed_above_the_entropy_and_does_not_fall(losses, changes, epoch):
    assert epoch_of_the_end(losses, **changes) == epoch
