"""Criteria over learning rates, usable ranges, sensitivity and the statistics: made-up curves for every branch."""

import math
from collections.abc import Mapping, Sequence
from itertools import product

import pytest
from scipy import stats

from ln_repro.claims.arena import sensitivity
from ln_repro.claims.evidence import Evidence
from ln_repro.claims.intervals import CONTRADICTED, INCONCLUSIVE, REPRODUCED, fisher_exact, prediction_interval
from ln_repro.claims.lr50 import arms_of, lr50, shown_lr50
from ln_repro.claims.metrics import Effect
from ln_repro.claims.over_rates import AtBestRates, JustAboveNothing, NotStarved, RateFactor
from ln_repro.claims.rates import at_edge, best_rate, usable_range
from ln_repro.records.archive import Run
from tests.claims import recomputed
from tests.claims.made import held, made
from tests.committed import archive

WARM, NONE = "postln_warm", "postln_nowarm"
Curve = Mapping[float, Sequence[float]]


def curve(*hits: int, seeds: int = 5, lowest: float = 1.0) -> Curve:
    """Return how many seeds train, at 80 BLEU, at rates that double; the others have none."""
    return {lowest * 2.0**at: [80.0] * number + [0.0] * (seeds - number) for at, number in enumerate(hits)}


@pytest.mark.parametrize(("warm", "none", "verdict", "needs"), [
    (curve(5, 5, 5, 0), curve(5, 0, 0, 0), REPRODUCED, None),
    (curve(5, 5, 5, 5), curve(5, 0, 0, 0), REPRODUCED, None),  # LR50 above 8
    (curve(5, 5, 5, 0), curve(0, 0, 0, 0), REPRODUCED, None),  # LR50 below 1
    (curve(9, 9, 9, 0, seeds=9), curve(9, 9, 9, 0, seeds=9), INCONCLUSIVE, "18 seeds"),
    (curve(*[9] * 3, *[0] * 3, seeds=9), curve(*[9] * 5, 0, seeds=9), CONTRADICTED, None),
    (curve(5, 5, 5, 0), curve(5, 5, 2, 0), INCONCLUSIVE, "10 seeds"),
    (curve(2, 2, 0, seeds=2), curve(2, 0, 0, seeds=2), INCONCLUSIVE, "5 seeds at 1, 2, 4"),
    (curve(4, 4, 4, 0, seeds=4), curve(4, 0, 0, 0, seeds=4), INCONCLUSIVE, "5 seeds at 1, 2, 4, 8"),  # p = 0.029
    (curve(5, 5), curve(5, 5), INCONCLUSIVE, "rates of Post-LN with warm-up above 2"),
])  # fmt: skip
def test_a_factor_in_lr50(warm: Curve, none: Curve, verdict: str, needs: str | None) -> None:
    finding = RateFactor((WARM, NONE)).judge(held({WARM: warm, NONE: none}))
    assert (finding.verdict, finding.needs) == (verdict, needs), finding.text
    assert len(finding.runs) == sum(map(len, [*warm.values(), *none.values()]))


def test_fishers_test_is_made_at_the_rates_of_both_lr50s_and_its_level_divided() -> None:
    """Five of five against none has p = 0.0079, which is below 0.05 / 6 and not below 0.05 / 7."""
    for rates, verdict in ((6, REPRODUCED), (7, INCONCLUSIVE)):
        warm, none = curve(*[5] * 3, *[0] * (rates - 3)), curve(5, *[0] * (rates - 1))
        finding = RateFactor((WARM, NONE)).judge(held({WARM: warm, NONE: none}))
        assert finding.verdict == verdict and finding.effect and finding.effect.interval[0] > 1.5
        assert finding.note == ("too few at any one rate" if verdict == INCONCLUSIVE else "")


def by_nll(*nlls: float, bleu: float = 0.0, seeds: int = 5) -> dict[float, dict[int, Run]]:
    """Return runs at rates that double, given the NLL at each."""
    return {2.0**at: {seed: made(seed=seed, bleu=bleu, loss=nll + 1) for seed in range(1, seeds + 1)}
            for at, nll in enumerate(nlls)}  # fmt: skip


def test_rates_below_those_at_which_the_first_arm_trains_are_not_in_the_effect_that_is_shown() -> None:
    fails, trains = by_nll(*[6.0] * 4), by_nll(*[2.0] * 4, bleu=80.0)
    for rates, bound, by_rule in (
        ((4.0,), "at least x1.1", "x4.3"), ((4.0, 8.0), "at least x2", "x8"), ((1.0, 2.0, 4.0), "at least x4.3", ""),
    ):  # fmt: skip
        evidence = Evidence({}, {WARM: fails | {rate: trains[rate] for rate in rates}, NONE: by_nll(5.0, 6.0, 7.0)})
        finding = RateFactor((WARM, NONE)).judge(evidence)
        assert str(finding.effect) == f"{bound} in rate"
        others = finding.text.partition("by the rule at least ")[2]
        assert others == (by_rule and f"{by_rule} in rate, which counts rates that are too low")
        assert finding.verdict == REPRODUCED, "the rule is as it was"
        shown, of_rule = shown_lr50(evidence, NONE), lr50(evidence, NONE)
        assert shown and of_rule and (shown.interval[1], of_rule.interval[1]) == (min(rates), 1.0)


def test_a_rate_with_fewer_than_three_seeds_does_not_count_in_an_lr50_that_is_shown() -> None:
    few = {1.0: [80.0] * 3, 2.0: [80.0] * 3, 4.0: [0.0]}
    shown, of_rule = shown_lr50(held({WARM: few}), WARM), lr50(held({WARM: few}), WARM)
    assert shown and of_rule and (shown.interval, [*of_rule.counts]) == ((2.0, math.inf), [1.0, 2.0, 4.0])
    alone = shown_lr50(held({WARM: {4.0: [0.0]}}), WARM)
    assert alone and alone.interval == (0.0, 4.0)


def test_an_arm_that_higher_rates_may_help_has_not_failed() -> None:
    trains = by_nll(2.0, 2.0, bleu=80.0) | {4.0: by_nll(5.0)[1.0]}
    higher = "higher rates of Post-LN without warm-up"
    for nlls, needs in (((6.0, 5.5, 5.2), higher), ((6.0, 5.5, 5.7), None), ((5.9, 9.0, math.inf), None)):
        finding = RateFactor((WARM, NONE)).judge(Evidence({}, {WARM: trains, NONE: by_nll(*nlls)}))
        assert (finding.verdict, finding.needs) == (INCONCLUSIVE if needs else REPRODUCED, needs)


def test_arms_that_were_not_run_or_train_nowhere_decide_nothing() -> None:
    assert RateFactor((WARM, NONE)).judge(held({WARM: curve(5)})).needs == "runs of postln_nowarm"
    nothing = held({WARM: curve(0, 0), NONE: curve(0, 0), "best": curve(5)})
    finding = RateFactor((WARM, NONE)).judge(nothing)
    assert (finding.verdict, finding.note) == (INCONCLUSIVE, "neither trains")


def test_a_masked_lm_trains_by_its_distance_from_the_unigram_entropy() -> None:
    """It is 9 bits; half a bit below it trains, a tenth fails, whatever another arm reaches."""
    evidence = Evidence({}, {}, entropies={"unigram_bits": 9.0})
    for loss, trained, failed in ((9.4, True, False), (9.7, False, False), (9.95, False, True)):
        run = made("toybert_postln_warm", loss=loss)  # the NLL is one bit lower
        assert (evidence.trained(run), evidence.failed(run)) == (trained, failed)


def at_best(first: dict[float, tuple[float, float]], second: float = 30.0, edge: bool = False, seeds: int = 5):
    """Return the finding where the first arm has BLEU and loss at rates, and the second a BLEU at 1, its best rate."""

    def runs(bleu: float, loss: float, noise: float = 0.1) -> dict[int, Run]:
        return {seed: made(seed=seed, bleu=bleu + noise * (-1) ** seed, loss=loss) for seed in range(1, seeds + 1)}

    rates = {rate: runs(*of_rate) for rate, of_rate in first.items()}
    others = {1.0: runs(second, 4.0, 0.0)} | ({} if edge else {0.5: runs(second, 9.0), 2.0: runs(second, 9.0)})
    return AtBestRates(("preln_nowarm", WARM)).judge(Evidence({}, {"preln_nowarm": rates, WARM: others}))


@pytest.mark.parametrize(("first", "options", "verdict", "words"), [
    ({1.0: (29.5, 3.0)}, {}, REPRODUCED, "not better by 1"),
    ({1.0: (33.0, 3.0)}, {}, REPRODUCED, "better by 1"),
    ({1.0: (31.0, 3.0)}, {}, REPRODUCED, "may be better by 1"),
    ({1.0: (28.0, 3.0)}, {}, CONTRADICTED, ""),
    ({1.0: (29.05, 3.0)}, {}, INCONCLUSIVE, ""),
    ({1.0: (33.0, 3.0), 2.0: (29.5, 2.0)}, {}, REPRODUCED, "(at 2 and 1)"),  # the lowest loss chooses
    ({1.0: (29.5, 3.0)}, {"edge": True}, INCONCLUSIVE, "(at 1 and 1)"),  # the second may be better elsewhere
    ({1.0: (29.5, 3.0)}, {"seeds": 4}, INCONCLUSIVE, "(at 1 and 1)"),
    ({1.0: (96.0, 3.0)}, {"second": 96.0}, INCONCLUSIVE, ""),
])  # fmt: skip
def test_not_worse_at_the_best_rates(first, options, verdict, words) -> None:
    finding = at_best(first, **options)
    assert finding.verdict == verdict and words in finding.text
    assert (finding.note == "saturated") == (options.get("second") == 96.0)


@pytest.mark.parametrize(
    ("none", "warm", "adam", "verdict"),
    [((1.0, 2.0), (3.0, 25.0), 80.0, REPRODUCED), ((1.0, 9.0), (3.0, 25.0), 80.0, CONTRADICTED),
     ((1.0, 2.0), (3.0, 25.0), 20.0, CONTRADICTED)],
)  # fmt: skip
def test_just_above_nothing_under_sgd(none, warm, adam, verdict) -> None:
    arms = {"none": {1.0: [none[0]] * 5, 2.0: [none[1]] * 5}, "warm": {1.0: [warm[0]] * 5, 2.0: [warm[1]] * 5},
            "adam": {1.0: [adam] * 5}}  # fmt: skip
    assert JustAboveNothing(("none", "warm", "adam")).judge(held(arms)).verdict == verdict


@pytest.mark.parametrize(
    ("none", "verdict", "note"), [(24.0, CONTRADICTED, "starvation"), (20.0, REPRODUCED, ""), (23.0, INCONCLUSIVE, "")]
)
def test_without_the_ramp_alone_the_effect_is_starvation(none, verdict, note) -> None:
    noise = (-0.5, 0.5, 0.0, -0.5, 0.5)
    arms = {"none": {1.0: [none + part for part in noise]}, "warm": {1.0: [25.0] * 5, 2.0: [3.0] * 5}}
    finding = NotStarved(("none", "warm")).judge(held(arms))
    assert (finding.verdict, finding.note) == (verdict, note)


def test_a_usable_range_has_ends_that_may_be_open() -> None:
    evidence = held({WARM: curve(0, 4, 3, 5, 0), NONE: curve(5, 5), "rezero_warm": curve(0, 0)})
    limits = usable_range(evidence, WARM)
    assert limits and (limits.low, limits.high, limits.octaves, limits.open) == (2.0, 8.0, 2.0, (False, False))
    assert str(limits) == "2-8" and str(usable_range(evidence, NONE)) == "<1-2+"
    assert usable_range(evidence, "rezero_warm") is None
    best = Evidence({}, {WARM: by_nll(3.0, 2.0, 4.0), NONE: by_nll(3.0, 2.0), "preln_warm": by_nll(2.0, 3.0, seeds=2)})
    assert [best_rate(best, arm) and best_rate(best, arm)[0] for arm in best.rates] == [2.0, 2.0, None]
    assert [at_edge(best, arm) for arm in best.rates] == ["", "higher", ""]


def test_a_run_that_is_not_finite_has_no_bleu_and_an_infinite_loss() -> None:
    lost, stuck = (made(bleu=80.0, rule=rule) for rule in ("not_finite", "stuck"))
    assert (lost.bleu, lost.loss, lost.nll) == (0.0, math.inf, math.inf)
    assert (stuck.bleu, stuck.loss, stuck.nll) == (80.0, 4.0, 3.0)


def test_sensitivity_is_how_much_worse_the_other_rates_are_on_the_mean() -> None:
    losses = {1e-3: [2.0, 4.0], 2e-3: [5.0, math.inf]}  # means 3 and, with at most 6 bits, 5.5
    value, (low, high) = sensitivity(losses, losses, most=6.0)
    assert value == pytest.approx(4.25 - 3.0) and 0 <= low < value < high < 2.1
    best = sensitivity({5e-4: [2.5], **losses}, losses, most=6.0)  # with one seed, there is no interval
    assert best == (pytest.approx(4.25 - 2.5), (-math.inf, math.inf))
    dense = {1e-3: [3.0], 2e-3: [4.0], 8e-3: [6.0]}  # one bit for each doubling
    assert sensitivity(dense, dense, 9.0)[0] == pytest.approx(1.5) == sensitivity(dense, [1e-3, 8e-3], 9.0)[0]


def test_the_prediction_interval_by_hand() -> None:
    """Student's quantile for 4 degrees of freedom, times the standard deviation, times (1 + 1/5)^1/2."""
    half = 2.13185 * 1.58114 * 1.2**0.5
    assert prediction_interval([1, 2, 3, 4, 5], 0.9) == pytest.approx((3 - half, 3 + half), rel=1e-4)


def test_fishers_p_values_are_scipys_for_every_table_of_up_to_seven_seeds() -> None:
    for runs, other_runs in product(range(1, 8), repeat=2):
        for hits, other_hits in product(range(runs + 1), range(other_runs + 1)):
            theirs = stats.fisher_exact([[hits, runs - hits], [other_hits, other_runs - other_hits]]).pvalue
            assert fisher_exact(hits, runs, other_hits, other_runs) == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("new", [False, True])
@pytest.mark.parametrize("arm", [*arms_of("postln"), *arms_of("preln")])
def test_the_lr50_of_the_committed_runs_is_that_of_a_grid_over_intercept_and_slope(arm, new):
    limit = lr50((archive().replication if new else archive().evidence)["toy"], arm)
    if math.isinf(limit.median):
        assert all(hits == runs for hits, runs in limit.counts.values())
        return
    low, median, high = recomputed.lr50({rate: tuple(count) for rate, count in limit.counts.items()})
    assert (limit.median, *limit.interval) == pytest.approx((median, low, high), rel=0.002)


def test_only_rates_from_the_best_one_on_count():
    """At the lowest rate the arm is under-trained, which says nothing about the highest that it can take."""
    arms = {"postln_warm": {1e-3: [5.0] * 5, 2e-3: [30.0] * 5, 4e-3: [30.0] * 5, 8e-3: [0.0] * 5}}
    evidence = held(arms)
    for rate, runs in evidence.rates["postln_warm"].items():
        for run in runs.values():
            run.record.epochs[-1].valid_loss = abs(rate - 2e-3)
    limit = lr50(evidence, "postln_warm")
    assert [*limit.counts] == [2e-3, 4e-3, 8e-3]
    assert 4e-3 < limit.interval[0] < limit.median < limit.interval[1] < 8e-3
    assert limit.median == pytest.approx(math.sqrt(4e-3 * 8e-3), rel=0.001)


def test_arms_that_always_or_never_train_have_one_known_end():
    arms = {"postln_warm": {1e-3: [30.0] * 5, 2e-3: [30.0] * 5}, "postln_nowarm": {1e-3: [0.0] * 5, 2e-3: [0.0] * 5},
            "preln_warm": {1e-3: [30.0] * 5, 2e-3: [0.0] * 5}}  # fmt: skip
    always, never, mixed = (lr50(held(arms), arm) for arm in arms)
    assert (always.median, always.interval) == (math.inf, (2e-3, math.inf))
    assert (never.median, never.interval) == (0.0, (0.0, 1e-3))
    assert always.over(never) == Effect(math.inf, (2.0, math.inf), "x{}", ".2g")
    least, most = always.over(mixed), mixed.over(always)
    assert least.interval == (pytest.approx(2e-3 / mixed.interval[1]), math.inf) and str(least).startswith("at least x")
    assert most.interval == (0.0, mixed.interval[1] / 2e-3) and str(most) == f"at most x{most.interval[1]:.2g}"
    assert always.over(always) is None and str(Effect(math.nan)) == "not finite"
    (low, high) = mixed.over(mixed).interval
    assert mixed.over(mixed).value == pytest.approx(1, rel=1e-6) and low == pytest.approx(1 / high)
    assert lr50(held(arms), "rezero_warm") is None
    assert RateFactor(("postln_nowarm", "postln_warm")).judge(held(arms)).verdict == "contradicted"
