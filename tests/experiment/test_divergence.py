"""The rule that tells a lost run from a slow one."""

import pytest

from ln_repro.experiment.divergence import stuck

ENTROPY, RAMP, UPDATES, EPOCH = 6.0, 100, 400, 441


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
    """It is stopped after that epoch, or never."""
    ramp, updates = changes.get("ramp", RAMP), changes.get("updates", UPDATES)
    validations = [(EPOCH * at, loss) for at, loss in enumerate(losses, 1)]
    ends = (at for at in range(1, len(losses) + 1) if stuck(validations[:at], ENTROPY, ramp, updates))
    assert next(ends, None) == epoch
