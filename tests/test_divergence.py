"""The rule that tells a lost run from a slow one."""

import random

import pytest

from ln_repro.divergence import RULES, Never, Stuck

ENTROPY, RAMP, UPDATES = 8.0, 100, 200


def judged(losses, rule=None, first=1):
    """Return the update at which the rule speaks, and what it says; None if it never does."""
    rule = rule or Stuck(ENTROPY, RAMP, UPDATES)
    for update, loss in enumerate(losses, first):
        if said := rule.look(update, loss):
            return update, said
    return None


def noisy(value, count, seed=1):
    draw = random.Random(seed)
    return [(value(n) if callable(value) else value) + draw.gauss(0, 0.2) for n in range(count)]


def test_a_loss_that_stays_above_the_entropy_is_stuck_as_soon_as_there_are_enough_updates():
    update, said = judged(noisy(9.0, 1000))
    assert update == RAMP + UPDATES
    assert "unigram entropy of 8.00 bits for 200 updates" in said and "\n" not in said


def test_a_plateau_at_the_entropy_itself_is_stuck_although_batches_dip_below_it():
    losses = noisy(ENTROPY + 0.02, 2000)
    assert min(losses) < ENTROPY - 0.3
    assert judged(losses)


def test_a_loss_that_rises_is_stuck():
    assert judged(noisy(lambda n: 8.5 + n / 200, 1000))[0] == RAMP + UPDATES


def test_a_slow_starter_is_not_stuck():
    """Post-LN with SGD: far above the entropy for long, but always falling a little."""
    assert judged(noisy(lambda n: 7.0 + 6.0 * 0.999**n, 3000)) is None


def test_what_learns_is_not_stuck_even_if_it_stands_still_later():
    assert judged(noisy(lambda n: max(2.0, 9.0 - n / 50), 3000)) is None
    assert judged(noisy(ENTROPY - 0.3, 3000)) is None


def test_the_ramp_does_not_count():
    rule = Stuck(ENTROPY, 5000, UPDATES)
    assert judged(noisy(9.0, 5000 + UPDATES - 1), rule) is None
    assert rule.look(5000 + UPDATES, 9.0)


def test_a_run_that_fell_and_then_blew_up_is_stuck_once_the_window_is_past_the_fall():
    losses = noisy(lambda n: max(3.0, 9.0 - n / 20), 500) + noisy(10.0, 500)
    update, _ = judged(losses)
    assert 500 + UPDATES // 2 < update <= 500 + UPDATES


@pytest.mark.parametrize("cut", [1, 150, 299])
def test_a_resumed_rule_says_the_same_at_the_same_update(cut):
    losses = noisy(9.0, 1000)
    before, after = Stuck(ENTROPY, RAMP, UPDATES), Stuck(ENTROPY, RAMP, UPDATES)
    assert judged(losses[:cut], before) is None
    after.resume(before.state())
    assert judged(losses[cut:], after, first=cut + 1) == judged(losses)


def test_one_update_is_enough_of_a_window():
    assert judged([9.0], Stuck(ENTROPY, 0, 1)) and judged([7.0], Stuck(ENTROPY, 0, 1)) is None
    assert judged([9.0] * 5, Stuck(ENTROPY, 0, 5))


def test_no_rule_never_speaks():
    rule = Never(ENTROPY, RAMP, UPDATES)
    assert judged([1e9] * 1000, rule) is None
    rule.resume(rule.state())


def test_every_rule_has_the_three_methods():
    for rule in RULES.values():
        made = rule(ENTROPY, RAMP, UPDATES)
        assert made.look(1, 9.0) is None and isinstance(made.state(), list)
