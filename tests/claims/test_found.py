"""What the paper found reproduces each claim, what lies beyond its thresholds does not, and few seeds say nothing."""

import math
from typing import Any

import pytest

from ln_repro.claims import metrics
from ln_repro.claims.bert import FINE_TUNING
from ln_repro.claims.criteria import SEEDS, SHARE, Claim, Trains
from ln_repro.claims.evidence import Evidence
from ln_repro.claims.judge import CLAIMS as ALL
from ln_repro.claims.judge import arms_of_rules, claim_rows, deep, judge, row_of
from ln_repro.claims.rates import OverRates
from ln_repro.claims.schemes import Even, gradients
from ln_repro.claims.theory import STATEMENTS
from ln_repro.claims.verdict import verdict
from ln_repro.experiment.compose import compose, expand, grid
from ln_repro.experiment.settings import build
from ln_repro.records.archive import Run
from ln_repro.sweep.grid import parse_request
from tests.claims.made import EPOCHS, KNOWN, Arms, gathered, line, made, made_runs, on_rates
from tests.examples import with_events

CLAIMS = {claim.id: claim for claim in ALL}
MEASURED = [claim.id for claim in ALL if claim not in FINE_TUNING and not deep(claim.rule)]
"""Those judged by loss or BLEU at one depth; of the others see test_bert and test_depth."""
FAST = {"bleu": 33.4, "bleus": [*line(0, 33, 10)[1:], *line(33, 33.4, 7)[1:]], "losses": [*line(9, 4, 9), *[4.0] * 6]}
SLOW = {"bleu": 33.1, "bleus": line(0, 33.1, EPOCHS + 1)[1:], "losses": line(9, 4, EPOCHS)}
"""Pre-LN and Post-LN by epoch."""
STEEP, FLAT = line(8, 3, EPOCHS), line(8, 8 - 5 / 1.4, EPOCHS)
"""A validation loss that falls as long as the run lasts."""
PROBES = {0: [0.1, 0.5, 1.6], 4000: [0.015] * 3}
UNEVEN = {
    arm: {"probes": {at: [1.0, 4.0] for at in (0, 100, 500, 1500)}}
    for arm in ("preln_nowarm_anchored", "deepnorm_nowarm", "rezero_nowarm")
}
PAPER: Arms = {  # what the paper found, by arm
    "postln_warm": {**SLOW, "probes": PROBES, "axes": {"warmup_updates": 4000}}, "postln_warm_high": SLOW,
    "postln_nowarm": {"bleu": 8.45, "loss": 7.0}, "postln_nowarm_literal": {"bleu": 8.45, "loss": 7.0},
    "postln_nowarm_literal_high": {"bleu": 2.0, "loss": 7.5},
    "postln_warm_short": {"bleu": 31.16}, "postln_warm_short_high": {"bleu": 2.77, "loss": 7.0},
    "postln_warm_sgd": {"bleu": 12.0}, "postln_warm_sgd_low": {"bleu": 4.0},
    "postln_nowarm_sgd": {"bleu": 1.0}, "postln_nowarm_sgd_low": {"bleu": 0.5},
    "postln_nowarm_sgd_literal": {"bleu": 1.0}, "postln_nowarm_sgd_low_literal": {"bleu": 0.5},
    "preln_nowarm": FAST, "preln_nowarm_high": FAST,
    "postln_nowarm_radam": {"bleu": 32.1}, "preln_nowarm_radam": {"bleu": 33.5},
    "postln_nowarm_fixed": {"loss": 4.3},
    "deepnorm_nowarm": {"bleu": 31.0},
    "rezero_nowarm": {"bleu": 32.0}, "rezero_nowarm_step": {"bleu": 32.0}, "preln_nowarm_anchored": {"bleu": 33.0},
    "admin_warm": {"bleu": 33.2}, "admin_warm_closed": {"bleu": 33.0},
    "admin_nowarm": {"bleu": 33.0, "probes": {0: [0.0, 0.0], 126: [0.4, 1.0], 500: [0.5, 1.0], 1430: [0.2, 0.5]}},
    "preln_nowarm_anchored_high": {"bleu": 33.0}, "deepnorm_nowarm_high": {"bleu": 8.0},
    "rezero_nowarm_high": {"bleu": 8.0}, "admin_nowarm_high": {"bleu": 32.0}, "preln_nowarm_literal": {"bleu": 15.6},
    "postln_warm_linear": {"losses": FLAT, "loss": FLAT[-1]}, "postln_warm_linear_high": {"loss": 7.0},
    "preln_nowarm_linear_high": {"losses": STEEP, "loss": 3.0},
}  # fmt: skip
RISING = [made(bleus=line(0, end, EPOCHS + 1)[1:]) for end in (30, 45)]
FALLING = [made(losses=[9 - bleu / 10 for bleu in line(0, end, EPOCHS + 1)[1:]]) for end in (30, 45)]
UNEQUAL = [made(losses=losses) for losses in ((3.0, 2.5, 1.0), (4.0, 4.0), (2.0, 2.25))]
"""Losses after every epoch of runs that are compared after the same number of epochs."""


@pytest.mark.parametrize(
    ("metric", "runs", "value"),
    [
        (metrics.EPOCHS_TO_BLEU, RISING, 1.5),  # 45 BLEU in 15 epochs has the other's 18 of epoch 9 after 6
        (metrics.EPOCHS_TO_LOSS, FALLING, 1.5),
        (metrics.LATE_MINUS_EARLY, RISING, 3.0),
        (metrics.LOSS_GAP, [UNEQUAL[0], UNEQUAL[2]], 0.25),
        (metrics.ABOVE_THE_BETTER, UNEQUAL, 0.25),
        (metrics.DOMINANCE_BLEU, [made(bleu=bleu) for bleu in (30, 33, 35)], 1.0),
        (metrics.DOMINANCE_LOSS, [made(loss=loss) for loss in (4, 3, 3.5)], 0.5),
        (metrics.RAMP_BY_RATE, [made(loss=loss) for loss in (5, 4, 3, 8, 7, 5)], 1.0),
    ],
)  # fmt: skip
def test_metrics_by_hand(metric: metrics.Metric, runs: list[Run], value: float) -> None:
    assert metric.of(*runs) == pytest.approx(value)


def of_paper(id: str, changed: Arms | None = None) -> Arms:
    """Return what the paper found of a claim's arms, some of it changed."""
    return {arm: {**PAPER[arm], **(changed or {}).get(arm, {})} for arm in CLAIMS[id].rule.arms}


def judged(id: str, changed: Arms | None = None, seeds: int = SEEDS) -> dict[str, Any]:
    return row_of(CLAIMS[id], gathered(made_runs(CLAIMS[id].setting, of_paper(id, changed), seeds)))


@pytest.mark.parametrize("id", MEASURED)
def test_what_the_paper_found_reproduces_the_claim_over_enough_seeds(id: str) -> None:
    row = judged(id)
    assert (row["verdict"], row["needs"], row["seeds"]) == ("reproduced", None, SEEDS), row["ours"]
    assert len(row["evidence"]) == len(set(row["evidence"])) == len(CLAIMS[id].rule.arms) * SEEDS
    for seeds, needs in ((SEEDS - 1, "1 more seed"), (3, "2 more seeds")):
        few = judged(id, seeds=seeds)
        assert (few["verdict"], few["needs"]) == ("inconclusive", needs)


@pytest.mark.parametrize(
    ("id", "changed", "answer"),
    [
        ("MT-1", {"postln_nowarm_literal": {"bleu": 1.0}}, "it fails, with less BLEU than there"),
        ("MT-5", {"preln_nowarm": {**FAST, "bleus": [*line(0, 34.5, 10)[1:], *[34.5] * 6]}}, "Pre-LN is better"),
        ("BERT-1", {"postln_warm_linear": {"losses": line(8, 5.5, EPOCHS)}}, "faster, but not by the paper's factor"),
    ],
)  # fmt: skip
def test_more_than_the_paper_found_is_no_contradiction(id: str, changed: Arms, answer: str) -> None:
    row = judged(id, changed)
    assert (row["verdict"], row["needs"], row["answer"]) == ("inconclusive", None, answer), row["ours"]


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        ({}, "reproduced"),
        ({"admin_nowarm_high": {"bleu": 29.0}}, "contradicted"),
        (
            {"admin_nowarm": {"probes": {0: [0.0, 1.0], 100: [1.0, 1.0], 500: [1.0, 1.0], 1500: [1.0, 1.0]}}},
            "contradicted",
        ),
        (
            {"admin_nowarm": {"probes": {at: [1.0, 1.0] for at in (0, 100, 500, 1400)}}},
            "inconclusive",
        ),  # not at the end
        ({"admin_nowarm": {"probes": {}}}, "inconclusive"),
    ],
)
def test_the_open_question_takes_one_scheme_that_has_it_all(changed: Arms, verdict: str) -> None:
    row = judged("X-4", {**UNEVEN, **changed})
    assert row["verdict"] == verdict, row["ours"]


@pytest.mark.parametrize(("probed", "verdict"), [(5, "reproduced"), (4, "inconclusive")])
def test_probes_are_needed_for_five_seeds_of_all_that_were_run(probed: int, verdict: str) -> None:
    probes = {0: [1.0, 1.0], 9999: [0.1, 0.1]}
    runs = [made(seed=seed, probes=probes if seed > 10 - probed else {}) for seed in range(1, 11)]
    (found,) = row_of(CLAIMS["TH-10"], gathered(runs))["other_corpora"]
    assert found["verdict"] == verdict
    if verdict == "reproduced":
        assert "(measured on 5 of 10 seeds)" in found["ours"]
    else:
        assert found["needs"] == "more seeds: 1 of postln_warm that have the probes and events of this rule"
        assert found["seeds"] == 4
        assert found["command"].endswith(" seed=11,12,13,14,15 probe=gradients probe_batches=100 every=63")


def test_further_seeds_are_those_that_no_arm_has() -> None:
    runs = made_runs("toy", {arm: {"probes": {}} for arm in CLAIMS["X-4"].others.arms})
    (found,) = row_of(CLAIMS["X-4"], gathered([*runs, made("toy_postln_warm", seed=8)]))["other_corpora"]
    assert found["command"].endswith(" seed=9,10,11,12,13 probe=gradients probe_batches=100 every=63")


def test_gradients_that_are_uneven_at_one_checkpoint_are_so_whatever_the_others_are() -> None:
    """Also where one that is wide open reaches further up."""
    ends = [[1.0, 1.1], [1.0, 1.1], [1.0, 1.1], [1.0, 1.1], [1.0, 40.0]]
    probes = {at: [1.0, 4.0] for at in (0, 100, 500)}
    runs = {seed: made(seed=seed, probes={**probes, 1500: end}) for seed, end in enumerate(ends, 1)}
    assert Even("rezero_nowarm").judge(Evidence({"rezero_nowarm": runs})).verdict == "contradicted"


def test_where_an_interval_holds_the_edge_more_seeds_are_asked_for() -> None:
    row = judged("MT-4", {"preln_nowarm": {"bleu": 32.05}, "postln_warm": {"bleu": 32.6}})
    assert (row["verdict"], row["needs"]) == ("inconclusive", "more seeds: the interval straddles a limit of the rule")


@pytest.mark.parametrize(("hits", "verdict"), [(4, "reproduced"), (3, "inconclusive"), (1, "contradicted")])
def test_an_arm_of_which_some_seeds_train_neither_trains_nor_fails(hits: int, verdict: str) -> None:
    runs = {seed: made(seed=seed, bleu=30.0 if seed <= hits else 1.0) for seed in range(1, 6)}
    evidence = Evidence({"postln_nowarm_radam": runs}, {"preln_warm": {1e-3: {1: made(bleu=30.0)}}})
    found = Trains("postln_nowarm_radam", least=SHARE).judge(evidence)
    assert (found.verdict, bool(found.needs)) == (verdict, verdict == "inconclusive")


@pytest.mark.parametrize("kept", [0, 3])
@pytest.mark.parametrize("id", MEASURED)
def test_every_rule_can_be_judged_when_a_run_of_any_arm_diverged(id: str, kept: int) -> None:
    """It diverged after some epochs, or in the first one."""
    for arm in CLAIMS[id].rule.arms:
        for setting, what in ((CLAIMS[id].setting, "rule"), ("toy", "others")):
            arms = {name: PAPER.get(name, {}) for name in KNOWN & {*arms_of_rules()}}
            runs = [run for run in made_runs(setting, arms) if run.record.exp != f"{setting}_{arm}" or run.seed != 3]
            ended = made(f"{setting}_{arm}", 3, 0.0, losses=[4.0] * kept + [None], rule="not_finite")
            rule = getattr(CLAIMS[id], what)
            assert rule is None or judge(rule, gathered([*runs, ended])[setting])["verdict"] != "not-run"


def test_two_infinite_losses_are_not_said_to_be_measured_incompletely() -> None:
    lost = [made(f"toy_{arm}", 3, losses=[None], rule="not_finite") for arm in ("postln_nowarm", "postln_nowarm_high")]
    rule = CLAIMS["MT-2"].others
    arms: Arms = {arm: {} for arm in (rule.arms if rule else ())}
    runs = [run for run in made_runs("toy", arms) if run.record.id not in {one.record.id for one in lost}]
    (other,) = row_of(CLAIMS["MT-2"], gathered([*runs, *lost]))["other_corpora"]
    assert (other["verdict"], other["needs"]) == ("inconclusive", None)
    assert other["answer"] == "losses that are compared are infinite"


def test_a_run_that_becomes_nan_never_gets_there_whenever_it_does() -> None:
    """Else its own decrease would be that of its first updates."""
    falling = [{"kind": "train", "update": at, "loss": 9.0 - at} for at in range(1, 8)]
    pre, lost = made("toy_preln_warm"), made("toy_postln_warm", rule="not_finite")
    pre = with_events(pre.record, falling)
    for length in (0, 1, 2, 7):
        post = with_events(lost.record, falling[:length])
        assert metrics.UPDATES_TO_FALL.of(post, pre) == math.inf and math.isnan(metrics.UPDATES_TO_FALL.of(post, post))


def test_equal_scores_are_not_above_one_another() -> None:
    assert (
        verdict((0.0, 0.0), (0.0, math.inf)) == "inconclusive" and verdict((0.1, 0.2), (0.0, math.inf)) == "reproduced"
    )


def test_runs_without_events_say_nothing_about_the_speed() -> None:
    runs = made_runs("toy", {"postln_warm": {}, "preln_warm": {}})
    for run in runs:
        if run.record.axes.norm == "postln":
            events = [{"kind": "train", "update": at, "loss": 9.0 - at} for at in range(1, 8)]
            run.record.curve = with_events(run.record, events).record.curve
    (other,) = row_of(CLAIMS["MT-5"], gathered(runs))["other_corpora"]
    assert other["verdict"] == "inconclusive" and "events" in other["needs"]


@pytest.mark.parametrize("claim", [claim for claim in ALL if claim.grid], ids=lambda claim: claim.id)
def test_the_sweep_that_a_claim_suggests_has_the_arms_that_it_compares(claim: Claim) -> None:
    request = parse_request([f"grid={word}" if at == 0 else word for at, word in enumerate(claim.grid.split())])
    arms = request.arms or grid(request.grid)["arms"]
    for criterion in claim.others.criteria if claim.others else ():
        assert {*arms} >= {*(criterion.compared if isinstance(criterion, OverRates) else ())}


def test_the_gradient_after_the_ramp_is_not_one_within_it() -> None:
    run = made(probes={0: [1.0], 400: [2.0], 600: [3.0]})
    assert [gradients(run, at) for at in (0, 500, 601)] == [[1.0], [3.0], [3.0]]


def test_ceilings_on_other_data_are_judged_without_the_named_experiments() -> None:
    rates = {0.25: [80.0] * 5, 0.5: [80.0] * 5, 1.0: [0.0] * 5}
    arms = {"postln_warm": rates, "postln_nowarm": {**rates, 0.5: [0.0] * 5}}
    for settings in (["multi30k6"], ["multi30k"], ["multi30k6", "multi30k"]):
        runs = [run for setting in settings for run in on_rates(setting, arms)]
        runs += [made(f"{settings[0]}_postln_nowarm", seed, 0.0, lr=2.0) for seed in (6, 7, 8)]  # no rate has eight
        runs += [made(f"{settings[0]}_postln_warm", seed, 80.0, lr=0.5) for seed in (6, 7)]  # the other arm has five
        (found,) = row_of(CLAIMS["MT-1.anchored"], gathered(runs))["other_corpora"]
        assert (found["setting"], found["verdict"], found["seeds"]) == (settings[0], "reproduced", 5)
        assert len(found["evidence"]) == 35 and f"corpus={settings[0]}" in found["command"]


def test_without_a_run_of_an_arm_the_claim_is_not_run_and_says_what_to_run() -> None:
    row = row_of(CLAIMS["MT-1.anchored"], gathered(made_runs("iwslt", {"postln_warm": {}})))
    assert (row["verdict"], row["needs"]) == ("not-run", "runs of postln_nowarm")
    assert row["command"] == "ln-repro run -m exp=iwslt_postln_warm,iwslt_postln_nowarm seed=1,2,3,4,5"
    assert row["cost_gpu_hours"] == 10
    assert [row["verdict"] for row in claim_rows({}, [])] == ["not-run"] * (len(ALL) + len(STATEMENTS))


@pytest.mark.parametrize("id", MEASURED)
def test_what_a_claim_says_to_run_can_be_run(id: str) -> None:
    claim = CLAIMS[id]
    program, verb, multirun, *overrides = row_of(claim, {})["command"].split(" ")
    assert (program, verb, multirun) == ("ln-repro", "run", "-m")
    arms, runs = (*claim.rule.arms, *claim.controls), expand(overrides)
    assert len(runs) == len(arms) * SEEDS
    assert [build(compose(run)).exp for run in runs[::SEEDS]] == [f"{claim.setting}_{arm}" for arm in arms]
    assert {arm for rule in (claim.rule, claim.others) if rule for one in rule.criteria for arm in one.arms} <= KNOWN


def test_an_arm_that_is_judged_and_a_control_is_run_once() -> None:
    (found,) = row_of(CLAIMS["MT-5"], gathered(made_runs("toy", {"postln_warm": {}, "preln_warm": {}})))[
        "other_corpora"
    ]
    assert found["command"] == (
        "ln-repro run -m exp=toy_postln_warm,toy_preln_warm,toy_postln_warm_step seed=6,7,8,9,10"
    )


@pytest.mark.parametrize("seeds", [1, 3])
def test_seeds_that_are_missing_are_not_asked_for_in_addition_to_five(seeds: int) -> None:
    runs = [run for run in made_runs("toy", {arm: {} for arm in CLAIMS["MT-6"].others.arms}) if run.seed <= seeds]
    (found,) = row_of(CLAIMS["MT-6"], gathered(runs))["other_corpora"]
    assert f"{5 - seeds} more seeds" in found["needs"] and found["command"].endswith("seed=1,2,3,4,5")


def test_a_rule_says_how_many_of_its_records_are_older() -> None:
    runs = made_runs("iwslt", of_paper("MT-2"))
    for run, time in zip(runs, ("2026-11-21T14:29:59Z", "2026-11-21T14:30:01Z"), strict=False):
        run.record.started = time
    assert row_of(CLAIMS["MT-2"], gathered(runs))["older"] == 1
