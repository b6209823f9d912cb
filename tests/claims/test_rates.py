"""Ceilings and best rates (amendment 1): made-up curves over learning rates for every branch, and the statistics."""

import math
from collections.abc import Mapping, Sequence
from itertools import product

import pytest
from scipy import stats

from ln_repro.claims.ceilings import LOSS, ceiling
from ln_repro.claims.criteria import Finding
from ln_repro.claims.evidence import Evidence
from ln_repro.claims.intervals import fisher_exact, prediction_interval
from ln_repro.claims.metrics import BLEU
from ln_repro.claims.rates import BestRates, Ceilings, ReportCeiling, TrainsWhereFails, further_rates
from ln_repro.claims.sensitivity import sensitivity, sensitivity_interval
from ln_repro.claims.verdict import CONTRADICTED, INCONCLUSIVE, REPRODUCED
from ln_repro.claims.words import arm_words
from ln_repro.records.archive import Run
from tests.claims.made import held, made

Curve = Mapping[float, Sequence[float]]


def of(hits: int, seeds: int = 5, fails: float = 0.0) -> list[float]:
    """Return so many seeds that train, at 90, and others that fail or end between the two."""
    return ([90.0] * hits + [fails] * (seeds - hits))[:seeds]


def curve(*hits: int, seeds: int = 5, lowest: float = 1.0) -> Curve:
    """Return how many seeds train at rates that double."""
    return {lowest * 2.0**at: of(number, seeds) for at, number in enumerate(hits)}


def ceilings(high: Curve, low: Curve) -> Finding:
    """Return whether the ceiling of Post-LN with warm-up is above the one without."""
    return Ceilings("postln_warm", "postln_nowarm").judge(held({"postln_warm": high, "postln_nowarm": low}))


@pytest.mark.parametrize(
    ("high", "low", "verdict", "needs"),
    [
        (curve(5, 5, 0), curve(5, 0, 0), REPRODUCED, None),
        (curve(5, 5, 5), curve(5, 0, 0), REPRODUCED, None),  # at least 4, which is enough
        (curve(5, 5, 0), curve(5, 5, 0), CONTRADICTED, None),  # equal, and both known
        (curve(5, 5, 5), curve(5, 5, 5), INCONCLUSIVE, "higher rates"),  # the grid ends too early
        (curve(5, 5, 5, lowest=1.5), {1.0: of(5), 4.0: of(5), 6.5: of(0)}, INCONCLUSIVE, "higher rates"),
        ({1.0: of(5), 1.5: of(5), 4.0: of(0)}, {1.0: of(5), 1.5: of(0)}, INCONCLUSIVE, "up from 2 to below 4"),
        ({1.0: of(5), 1.5: of(5), 2.0: of(0)}, {1.0: of(5), 2.0: of(0)}, INCONCLUSIVE, "-up from 1.5 to below 2"),
        ({1.0: of(5), 1.5: of(5), 2.0: of(0)}, {1.0: of(5), 1.5: of(0), 2.0: of(0)}, INCONCLUSIVE, None),  # none helps
        ({1.0: of(5), 1.5: of(5), 2.0: of(0)}, {1.0: of(0), 1.5: of(0)}, INCONCLUSIVE, "lower rates"),
        (curve(0, 0), curve(5, 0), CONTRADICTED, None),  # below the lowest rate, at which the other trains
        ({4.0: of(0), 8.0: of(0)}, curve(5, 0), INCONCLUSIVE, "lower rates"),  # it may train at 2
        ({1.0: of(5), 8.0: of(0)}, curve(5, 0), INCONCLUSIVE, "up from 2 to below 8"),
        (curve(0, 0, 0), curve(0, 0, 0), INCONCLUSIVE, "lower rates of Post-LN with warm-up and lower rates of Post"),
        (curve(0, 0) | {0.5: of(0, 2)}, curve(0, 0), INCONCLUSIVE, "3 seeds at 0.5"),
        (
            curve(5, 0, 0) | {2.0: of(2, 2)},
            {1.0: of(5), 4.0: of(0)},
            INCONCLUSIVE,
            "5 seeds at 2",
        ),  # it may train there
        (curve(5, 0, 0) | {2.0: of(0, 2)}, {1.0: of(5), 4.0: of(0)}, CONTRADICTED, None),
        (curve(5, 5, 0), curve(0, 0, 0), REPRODUCED, None),  # twice the lowest rate that was run
        (curve(5, 5, 0), {1.0: of(5), 2.0: of(0, 4), 4.0: of(0)}, INCONCLUSIVE, "5 seeds at 2"),
        (curve(5, 5, 0, seeds=4) | {1.0: of(5)}, curve(5, 0, 0), INCONCLUSIVE, "5 seeds at 2, 4"),
        (curve(5, 5, 0, seeds=2), curve(5, 0, 0), INCONCLUSIVE, "3 seeds at every rate, and 5 at those that decide"),
        (curve(5, 3, 0), curve(5, 0, 0), CONTRADICTED, None),  # mixed is not trained
        (curve(5, 5, 0), curve(5, 1, 0), REPRODUCED, None),  # p = 0.048
        (
            curve(5, 5, lowest=2.0),
            {1.0: of(0), 2.0: of(0, 4), 4.0: of(0, 4), 8.0: of(0)},
            INCONCLUSIVE,
            "5 seeds of both at 4",
        ),
        (curve(5, 5, 0), {1.0: of(0), 2.0: of(0, 3)}, INCONCLUSIVE, "5 seeds at 2"),  # it decides that none is better
        (curve(5, 4, 0), curve(5, 1, 0), INCONCLUSIVE, "more seeds at 2"),  # p = 0.21
        (curve(5, 5, 0), {1.0: of(5), 1.5: of(2, 2), 2.0: of(0)}, REPRODUCED, None),  # two seeds are no rate
    ],
)
def test_ceilings(high: Curve, low: Curve, verdict: str, needs: str | None) -> None:
    found = ceilings(high, low)
    assert found.verdict == verdict, found.words
    assert found.needs == needs if needs is None else needs in (found.needs or "")
    assert len(found.runs) == sum(map(len, [*high.values(), *low.values()]))


def test_ceilings_that_no_rate_could_move_apart_have_an_answer() -> None:
    found = ceilings({1.0: of(5), 1.5: of(5), 2.0: of(0)}, {1.0: of(5), 1.5: of(0)})
    assert (found.needs, found.answer) == (None, "higher, but by less than 2 times")


def by_nll(*nlls: float, bleu: float = 0.0, seeds: int = 5) -> dict[float, dict[int, Run]]:
    """Return runs at rates that double, given the NLL at each."""
    return {2.0**at: {seed: made(seed=seed, bleu=bleu, loss=nll + 1) for seed in range(1, seeds + 1)}
            for at, nll in enumerate(nlls)}  # fmt: skip


@pytest.mark.parametrize(
    ("nlls", "verdict", "needs", "words"),
    [
        (
            (6.0, 5.5, 5.2),
            INCONCLUSIVE,
            "higher rates of Post-LN without warm-up",
            "not known (it may be under-trained up to 4,",
        ),
        ((6.0, 5.5, 5.7), REPRODUCED, None, "below 1 (the lowest rate"),
        ((5.9, 9.0, math.inf), REPRODUCED, None, "below 1 (the lowest rate"),
    ],
)
def test_an_arm_that_higher_rates_may_help_has_not_failed(nlls, verdict, needs, words) -> None:
    trains = by_nll(2.0, 2.0, bleu=90.0) | {4.0: by_nll(5.0)[1.0]}
    found = Ceilings("postln_warm", "postln_nowarm").judge(
        Evidence({}, {"postln_warm": trains, "postln_nowarm": by_nll(*nlls)})
    )
    assert (found.verdict, found.needs) == (verdict, needs) and words in found.words
    few = by_nll(*nlls) | {2.0: by_nll(0.0, nlls[1], seeds=3)[2.0]}  # at the rate that may be the best
    again = Ceilings("postln_warm", "postln_nowarm").judge(Evidence({}, {"postln_warm": trains, "postln_nowarm": few}))
    assert again.needs == ("5 seeds at 2" if nlls[1] == min(nlls) else needs)


@pytest.mark.parametrize(
    ("first", "second", "needs", "answer"),
    [
        ((6.0, 5.5, 6.0), (5.0, 4.9, math.inf), None, "neither trains here"),
        ((6.0, 5.5, 6.0), (5.0, 4.9, 4.8), "higher rates of Post-LN without warm-up", ""),
        ((math.inf, math.inf), (6.0, 5.5, 6.0), "lower rates of Post-LN with warm-up", ""),
    ],
)
def test_where_neither_arm_trains_rates_are_asked_for_only_where_they_may_help(first, second, needs, answer) -> None:
    best = {1.0: {1: made(bleu=90.0)}}
    found = Ceilings("postln_warm", "postln_nowarm").judge(
        Evidence({}, {"postln_warm": by_nll(*first), "postln_nowarm": by_nll(*second), "best": best})
    )
    assert (found.verdict, found.needs, found.answer) == (INCONCLUSIVE, needs, answer)


def test_a_ceiling_is_reported_for_comparison_where_there_are_runs() -> None:
    evidence = held({"preln_warm": curve(5, 5, 0)})
    found = ReportCeiling("preln_warm").judge(evidence)
    assert (found.verdict, found.words) == (REPRODUCED, "for comparison, ceiling 2 for Pre-LN with warm-up")
    assert len(found.runs) == 15 and ReportCeiling("postln_warm").judge(evidence).words == ""


def test_a_difference_that_may_be_chance_is_not_denied() -> None:
    found = ceilings(curve(5, 4, 0), curve(5, 1, 0))
    assert found.words.endswith("no rate with 5 seeds of both at which significantly more of the former's seeds train")


@pytest.mark.parametrize(
    ("low", "words"),
    [
        (curve(5, 0, 0), "without warm-up at a rate of 1; at 2, 5 of 5 seeds train with warm-up, 0 of 5 without"),
        (curve(0, 0, 0), "without warm-up at none of the rates from 1 to 4 run with 3 seeds or more; at 1, 5 of 5 "
         "seeds train with warm-up, 0 of 5 without"),
    ],
)  # fmt: skip
def test_ceilings_in_plain_words(low: Curve, words: str) -> None:
    found = ceilings(curve(5, 5, 0), low)
    assert found.plain == f"Post-LN with warm-up trains at learning rates from 1 to 2, {words} warm-up (p = 0.008)"


def test_plain_words_leave_out_low_rates_at_which_an_arm_does_not_train() -> None:
    found = ceilings(curve(0, 5, 5, 0), curve(0, 5, 0, 0))
    words = "Post-LN with warm-up trains at learning rates from 2 to 4, without warm-up at a rate of 2;"
    assert found.plain.startswith(words)


def test_a_single_rate_is_not_said_to_be_a_limit() -> None:
    found = ceilings({2.0: of(5)}, {1.0: of(0), 2.0: of(0)})
    assert found.verdict == REPRODUCED
    assert found.plain.startswith("Post-LN with warm-up trains at 2, the only learning rate run with 3 seeds or more,")


@pytest.mark.parametrize(
    ("high", "low", "words"),
    [
        ({2.0: of(3, 3)}, {1.0: of(1, 1), 2.0: of(0, 4)}, "at 2, 3 of 3 seeds train with warm-up and 0 of 4 without "
         "warm-up (p = 0.03)"),
        ({2.0: of(2, 2)}, {2.0: of(0, 2)}, "at 2, 2 of 2 seeds train with warm-up and 0 of 2 without warm-up"),
        ({2.0: of(2, 2)}, {1.0: of(2, 2)}, ""),
    ],
)  # fmt: skip
def test_too_few_seeds_for_a_ceiling_are_counted_at_the_rate_with_the_most(high: Curve, low: Curve, words: str) -> None:
    found = ceilings(high, low)
    assert (found.verdict, found.plain) == (INCONCLUSIVE, words)


def test_a_ceiling_is_the_largest_rate_that_trains_and_may_be_censored() -> None:
    found = ceiling(held({"preln_warm": curve(5, 3, 4, 0)}), "preln_warm")
    assert (found.rate, found.above, found.open, found.words()) == (4.0, 8.0, (), "4")
    assert found.rates == {1.0: (5, 5), 2.0: (3, 5), 4.0: (4, 5), 8.0: (0, 5)}
    assert ceiling(held({"preln_warm": curve(5, 5)}), "preln_warm").words() == "at least 2"
    none = held({"preln_warm": {1.0: of(0), 2.0: of(0)}, "best": {1.0: of(1, 1)}})
    assert ceiling(none, "preln_warm").words() == "below 1 (the lowest rate with 3 seeds or more)"


def test_a_run_that_is_not_finite_does_not_train_and_fails_whatever_its_bleu() -> None:
    found = held({"postln_warm": {1.0: of(5)}})
    lost, stuck = (made("toy_postln_warm", 6, 90.0, rule=rule) for rule in ("not_finite", "stuck"))
    assert (lost.bleu, lost.loss, lost.nll) == (0.0, math.inf, math.inf) and (stuck.bleu, stuck.loss) == (90.0, 4.0)
    assert not found.trained(lost) and found.failed(lost)
    assert found.trained(stuck) and not found.failed(stuck)


ONE, OTHER = "preln_nowarm_anchored", "postln_nowarm"


@pytest.mark.parametrize(
    ("trains", "fails", "verdict"),
    [
        (curve(5, 5), curve(5, 1), REPRODUCED),
        (curve(5, 0), {1.0: of(5), 2.0: of(0, fails=60.0)}, CONTRADICTED),  # partial is not failed
        (curve(5, 5), {1.0: of(5), 2.0: of(0, fails=60.0)}, INCONCLUSIVE),  # a higher rate may be the one
        (curve(5, 0), curve(5, 5), CONTRADICTED),  # the wrong one fails first
        (curve(5, 5), curve(5, 0, lowest=0.3), INCONCLUSIVE),  # no rate that both were run at
        (curve(5, 5), curve(5, 5), INCONCLUSIVE),  # both train at the highest rate that was run
        (curve(5, 5), {1.0: of(5), 2.0: of(0, 4)}, INCONCLUSIVE),
        (curve(5, 5, 0), {1.0: of(5), 4.0: of(0, fails=60.0)}, INCONCLUSIVE),  # at 2, the second may fail
        (curve(5, 5, 0), {1.0: of(5), 2.0: of(0, 2), 4.0: of(0, fails=60.0)}, INCONCLUSIVE),
        ({1.0: of(5), 2.0: of(2, 2), 4.0: of(0)}, curve(5, 0, 0), INCONCLUSIVE),  # at 2, the first may train
        ({1.0: of(5), 4.0: of(0)}, curve(5, 0, 0), INCONCLUSIVE),
        (curve(0, 0), {1.0: of(5), 2.0: of(5)}, INCONCLUSIVE),  # lower rates may help the first
    ],
)
def test_one_arm_trains_at_a_rate_where_another_fails(trains: Curve, fails: Curve, verdict: str) -> None:
    found = TrainsWhereFails(ONE, OTHER).judge(held({ONE: trains, OTHER: fails}))
    assert (found.verdict, bool(found.needs)) == (verdict, verdict == INCONCLUSIVE), found.words


def around(best: float) -> dict[float, dict[int, Run]]:
    """Return runs at rates on both sides of an arm's best, which they do not reach."""
    return {rate: {seed: made(seed=seed, loss=9.0) for seed in range(1, 6)} for rate in (best / 8, best * 8)}


def at_best(
    first: dict[float, tuple[float, float]], noise: float = 0.1, seeds: int = 5, alone: bool = False
) -> Finding:
    """Return the finding where the first arm has BLEU and loss at rates, and the second a BLEU of 30 at 1.

    Unless ``alone``, the second was also run at other rates, at which it is worse.
    """
    rates = {
        rate: {seed: made(seed=seed, bleu=bleu + noise * (-1) ** seed, loss=loss) for seed in range(1, seeds + 1)}
        for rate, (bleu, loss) in first.items()
    }
    other = {1.0: {seed: made(seed=seed, bleu=30.0) for seed in range(1, 6)}} | ({} if alone else around(1.0))
    return BestRates(ONE, OTHER, BLEU, -1, 1).judge(Evidence({}, {ONE: rates, OTHER: other}))


def test_the_best_rate_has_the_lowest_validation_loss_and_not_the_highest_bleu() -> None:
    found = at_best({1.0: (40.0, 3.0), 2.0: (30.2, 2.0), 4.0: (40.0, 3.0)})
    assert found.verdict == REPRODUCED and "(at 2 and 1)" in found.words and len(found.runs) == 10
    assert at_best({1.0: (40.0, 3.0), 2.0: (30.2, 2.0)}).needs == "higher rates of Pre-LN without warm-up (anchored)"
    assert at_best({1.0: (30.2, 3.0), 2.0: (40.0, 2.0)}).needs == "higher rates of Pre-LN without warm-up (anchored)"
    assert at_best({1.0: (30.2, 3.0), 2.0: (40.0, 2.0), 4.0: (30.2, 3.0)}).verdict == CONTRADICTED
    assert at_best({1.0: (30.5, 3.0)}, noise=1.0).verdict == INCONCLUSIVE
    assert at_best({1.0: (30.2, 3.0)}, seeds=4).needs == "5 seeds at 1"


def test_two_arms_are_not_comparable_where_the_second_may_be_better_at_further_rates() -> None:
    first = {seed: made(seed=seed, bleu=30.0) for seed in range(1, 6)}
    arms = {ONE: {1.0: first} | around(1.0), OTHER: {1.0: first}}
    found = BestRates(ONE, OTHER, BLEU, -1, 1).judge(Evidence({}, arms))
    assert (found.verdict, found.needs) == (INCONCLUSIVE, f"higher rates of {arm_words(OTHER)}")
    arms[ONE][1.0] = {seed: made(seed=seed, bleu=20.0) for seed in range(1, 6)}  # whatever the second may reach
    assert BestRates(ONE, OTHER, BLEU, -1, 1, (-math.inf, -1)).judge(Evidence({}, arms)).verdict == CONTRADICTED


def test_the_edge_is_that_of_the_measure_that_chooses_the_rate() -> None:
    """At the highest rate, the NLL is lowest and the smoothed loss is not; only the latter chooses."""
    arms = {
        arm: {rate: {seed: made(seed=seed, bleu=30.0, loss=loss) for seed in range(1, 6)}
              for rate, loss in ((0.5, 5.0), (1.0, 3.0), (2.0, 4.0))}
        for arm in (ONE, OTHER)
    }  # fmt: skip
    for runs in arms.values():
        for run in runs[2.0].values():
            for epoch in run.record.epochs:
                epoch.valid_nll_loss = 0.5
    evidence = Evidence({}, arms)
    assert further_rates(evidence, (ONE,)) == f"higher rates of {arm_words(ONE)}"
    assert further_rates(evidence, ("another",)) is further_rates(evidence, (ONE,), LOSS) is None
    assert BestRates(ONE, OTHER, BLEU, -1, 1).judge(evidence).verdict == REPRODUCED


def test_a_best_rate_without_others_is_not_called_the_best() -> None:
    one = at_best({1.0: (30.2, 3.0)}, alone=True)
    assert one.plain.startswith("at 1, the only rate run with 3 seeds or more, BLEU of")
    assert at_best({1.0: (30.2, 3.0), 2.0: (30.2, 4.0)}).plain.startswith("at the best rate of each, BLEU of")


@pytest.mark.parametrize(
    ("bleu", "verdict", "answer"),
    [(30.5, REPRODUCED, ""), (32.0, INCONCLUSIVE, "better"), (28.0, CONTRADICTED, ""), (31.05, INCONCLUSIVE, "")],
)
def test_more_than_comparable_is_neither_reproduced_nor_contradicted(bleu: float, verdict: str, answer: str) -> None:
    arms = {arm: {1.0: {seed: made(seed=seed, bleu=at + 0.1 * (-1) ** seed * (arm == ONE)) for seed in range(1, 6)}}
            for arm, at in ((ONE, bleu), (OTHER, 30.0))}  # fmt: skip
    for rates in arms.values():
        rates |= around(1.0)
    found = BestRates(ONE, OTHER, BLEU, -1, 1, (-math.inf, -1), "better").judge(Evidence({}, arms))
    assert (found.verdict, found.answer) == (verdict, answer)
    assert bool(found.needs) == (verdict == INCONCLUSIVE and not answer)  # more seeds help at a limit
    assert ("so far, better" in (found.needs or "")) == (bool(found.needs) and bleu > 31)


def test_sensitivity_is_how_much_worse_the_other_rates_are_on_the_mean() -> None:
    found = {1e-3: [2.0, 4.0], 2e-3: [5.0, math.inf]}  # means 3 and, with at most 6 bits, 5.5
    assert sensitivity(found, found, most=6.0) == pytest.approx(4.25 - 3.0)
    assert sensitivity({5e-4: [2.5], **found}, found, most=6.0) == pytest.approx(4.25 - 2.5)  # the best of all rates
    dense = {1e-3: [3.0], 2e-3: [4.0], 8e-3: [6.0]}  # one bit for each doubling
    assert sensitivity(dense, dense, 9.0) == pytest.approx(1.5) == pytest.approx(sensitivity(dense, [1e-3, 8e-3], 9.0))
    low, high = sensitivity_interval(found, found, 6.0)
    assert 0 <= low < 1.25 < high < 2.1 and sensitivity_interval(found, found, 6.0) == (low, high)
    assert sensitivity_interval({1e-3: [2.0], 2e-3: [5.0, 5.0]}, found, 6.0) == (-math.inf, math.inf)


def test_the_prediction_interval_by_hand() -> None:
    """Student's quantile for 4 degrees of freedom, times the standard deviation, times (1 + 1/5)^1/2."""
    half = 2.13185 * 1.58114 * 1.2**0.5
    assert prediction_interval([1, 2, 3, 4, 5], 0.9) == pytest.approx((3 - half, 3 + half), rel=1e-4)


def test_fishers_p_values_are_scipys_for_every_table_of_up_to_seven_seeds() -> None:
    for one, other in product(range(1, 8), repeat=2):
        for hits, others in product(range(one + 1), range(other + 1)):
            theirs = stats.fisher_exact([[hits, one - hits], [others, other - others]]).pvalue
            assert fisher_exact(hits, one, others, other) == pytest.approx(theirs, rel=1e-9)
