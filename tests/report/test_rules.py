"""Every rule on both sides of each of its thresholds, with made-up runs."""

import math
from collections.abc import Mapping
from typing import Any

import pytest
from ln_repro.paper.claims import FINE_TUNING, OTHER_CORPORA, PRETRAINING, SCHEMES, SEEDS, TRANSLATION
from ln_repro.report.case import RATIO, interval
from ln_repro.report.claims import RULES, row_of
from ln_repro.report.evidence import Evidence, Run, gather

from ln_repro.compose import compose, expand, named
from ln_repro.experiment import build
from tests.report.made_records import EPOCHS, made_evidence, made_run, made_runs, straight

Arms = dict[str, dict[str, Any]]
CLAIMS = {claim.id: claim for claim in (*TRANSLATION, *PRETRAINING, *FINE_TUNING, *SCHEMES)}
MEASURED = [id for id in CLAIMS if id not in {claim.id for claim in FINE_TUNING}]
"""Those judged by loss or BLEU; of the others see test_rules_fine_tuning."""
EPOCH_NUMBERS = range(1, EPOCHS + 1)


def rising(at_nine: float, at_last: float) -> dict[int, float]:
    """BLEU by epoch, straight from 0 to epoch 9, then to the last."""
    return straight(0, at_nine, range(9 + 1)) | straight(at_nine, at_last, range(9, EPOCHS + 1)) | {}


FAST, SLOW = {**rising(33, 33.4)}, {**straight(0, 33.1, range(EPOCHS + 1))}
for curve in (FAST, SLOW):
    del curve[0]

PAPER: Arms = {  # what the paper found, by arm
    "postln_warm": {"bleu": 33.1, "loss": 4.0, "curve": SLOW}, "postln_warm_high": {"bleu": 33.1, "curve": SLOW},
    "postln_nowarm": {"bleu": 8.45, "loss": 7.0}, "postln_nowarm_literal": {"bleu": 8.45, "loss": 7.0},
    "postln_nowarm_literal_high": {"bleu": 2.0, "loss": 7.5},
    "postln_warm_short": {"bleu": 31.16}, "postln_warm_short_high": {"bleu": 2.77, "loss": 7.0},
    "postln_warm_sgd": {"bleu": 12.0}, "postln_warm_sgd_low": {"bleu": 4.0},
    "postln_nowarm_sgd": {"bleu": 1.0}, "postln_nowarm_sgd_low": {"bleu": 0.5},
    "postln_nowarm_sgd_literal": {"bleu": 1.0}, "postln_nowarm_sgd_low_literal": {"bleu": 0.5},
    "preln_nowarm": {"bleu": 33.4, "loss": 4.0, "curve": FAST}, "preln_nowarm_high": {"bleu": 33.4, "curve": FAST},
    "postln_nowarm_radam": {"bleu": 32.1}, "preln_nowarm_radam": {"bleu": 33.5},
    "postln_nowarm_fixed": {"loss": 4.3},
    "postln_warm_deep": {"bleu": 33.0}, "postln_warm_deeper": {"bleu": 2.0},
    "deepnorm_warm_deep": {"bleu": 33.0}, "deepnorm_warm_deeper": {"bleu": 33.0}, "deepnorm_nowarm": {"bleu": 31.0},
    "rezero_nowarm": {"bleu": 32.0}, "rezero_nowarm_step": {"bleu": 32.0}, "preln_nowarm_anchored": {"bleu": 33.0},
    "admin_warm": {"bleu": 33.2}, "admin_warm_closed": {"bleu": 33.0}, "admin_warm_deeper": {"bleu": 33.0},
    "admin_nowarm": {"bleu": 33.0, "probes": {0: [0.0, 0.0], 1000: [0.5, 1.0], 2000: [0.2, 0.5]}},
    "preln_nowarm_anchored_high": {"bleu": 33.0}, "deepnorm_nowarm_high": {"bleu": 8.0},
    "rezero_nowarm_high": {"bleu": 8.0}, "admin_nowarm_high": {"bleu": 32.0}, "preln_nowarm_literal": {"bleu": 15.6},
}  # fmt: skip
STEEP = straight(8.0, 3.0, range(1, EPOCHS + 1))
"""A validation loss that falls as long as the run lasts."""
FLAT = {epoch: STEEP[1] + (STEEP[EPOCHS] - STEEP[1]) * (epoch - 1) / 14 / 1.4 for epoch in STEEP}
PAPER |= {
    "postln_warm_linear": {"losses": FLAT},
    "postln_warm_linear_high": {"loss": 7.0},
    "preln_nowarm_linear_high": {"losses": STEEP},
}
PROBES = {0: [0.1, 0.5, 1.6], 4000: [0.015, 0.015, 0.015]}
PAPER["postln_warm"]["probes"] = PROBES


def judged(id: str, changed: Arms | None = None, seeds: int = SEEDS) -> Mapping[str, Any]:
    claim = CLAIMS[id]
    arms = {arm: {**PAPER[arm], **(changed or {}).get(arm, {})} for arm in claim.arms}
    return row_of(claim, made_evidence(claim.corpus, arms, seeds))


@pytest.mark.parametrize("id", MEASURED)
def test_what_the_paper_found_reproduces_the_claim_over_enough_seeds(id: str) -> None:
    row = judged(id)
    assert (row["verdict"], row["needs"], row["seeds"]) == ("reproduced", None, SEEDS), row["ours"]
    assert len(row["evidence"]) == len(CLAIMS[id].arms) * SEEDS
    few = judged(id, seeds=SEEDS - 2)
    assert (few["verdict"], few["needs"]) == ("inconclusive", "2 more seeds")
    assert judged(id, seeds=1)["verdict"] == "inconclusive"


@pytest.mark.parametrize(
    ("id", "arm", "changed"),
    [
        ("MT-1", "postln_warm", {"bleu": 31.6}),
        ("MT-1", "postln_warm", {"bleu": 35.9}),
        ("MT-1", "postln_nowarm_literal", {"bleu": 15.5}),
        ("MT-1", "postln_nowarm_literal", {"bleu": 3.5}),
        ("MT-1.anchored", "postln_nowarm", {"bleu": 15.5}),
        ("MT-2", "postln_warm_short", {"bleu": 29.0}),
        ("MT-2", "postln_warm_short", {"bleu": 33.5}),
        ("MT-2", "postln_warm_short_high", {"bleu": 15.5}),
        ("MT-3", "postln_nowarm_sgd_literal", {"bleu": 2.5}),
        ("MT-3", "postln_warm_sgd", {"bleu": 28.6}),
        ("MT-3.anchored", "postln_nowarm_sgd_low", {"bleu": 2.5}),
        ("MT-4", "preln_nowarm", {"bleu": 34.6}),
        ("MT-4", "preln_nowarm", {"bleu": 31.7}),
        ("MT-4", "preln_nowarm", {"loss": 4.2}),
        ("MT-4", "postln_warm", {"loss": 3.8}),
        ("MT-5", "postln_warm", {"curve": FAST}),
        ("MT-5", "preln_nowarm", {"curve": SLOW}),
        ("MT-6", "postln_nowarm_radam", {"bleu": 30.5}),
        ("MT-6", "postln_nowarm_radam", {"bleu": 33.4}),
        ("MT-6", "preln_nowarm_radam", {"bleu": 34.2}),
        ("MT-7", "postln_nowarm_fixed", {"loss": 4.55}),
        ("MT-7", "postln_nowarm_fixed", {"loss": 4.05}),
        ("MT-7", "postln_nowarm_literal_high", {"loss": 4.2}),
        ("WMT-1", "preln_nowarm_high", {"bleu": 31.8}),
        ("WMT-2", "postln_warm", {"curve": FAST}),
        ("TH-10", "postln_warm", {"probes": {**PROBES, 4000: [0.015, 0.015, 0.12]}}),
        ("TH-10", "postln_warm", {"probes": {**PROBES, 4000: [0.09, 0.09, 0.09]}}),
        ("X-1", "postln_warm_deeper", {"bleu": 31.0}),
        ("X-1", "deepnorm_warm_deeper", {"bleu": 29.0}),
        ("X-2", "rezero_nowarm", {"bleu": 29.5}),
        ("X-2", "rezero_nowarm_step", {"bleu": 29.5}),
        ("X-3", "admin_warm", {"bleu": 32.7}),
        ("X-3", "admin_warm_closed", {"bleu": 32.7}),
        ("X-3", "admin_warm_deeper", {"bleu": 29.0}),
        ("X-3", "postln_warm_deeper", {"bleu": 31.0}),
    ],
)
def test_beyond_a_threshold_it_is_contradicted(id: str, arm: str, changed: dict[str, Any]) -> None:
    row = judged(id, {arm: changed})
    assert row["verdict"] == "contradicted", row["ours"]


@pytest.mark.parametrize(
    "changed",
    [{"bleu": 32.7}, {"bleu": 29.0}, {"probes": {0: [0.5, 1.0], 1000: [0.3, 1.0]}}, {"probes": {0: [0.0, 1.0]}}],
)
def test_the_open_question_takes_one_scheme_that_has_it_all(changed: dict[str, Any]) -> None:
    others = {arm: {"probes": {0: [1.0, 4.0]}} for arm in ("preln_nowarm_anchored", "deepnorm_nowarm", "rezero_nowarm")}
    assert judged("X-4", others)["verdict"] == "reproduced"
    row = judged("X-4", {**others, "admin_nowarm": {**PAPER["admin_nowarm"], **changed}})
    assert row["verdict"] == "contradicted", row["ours"]


def test_the_scheme_has_to_train_at_the_higher_rate_too() -> None:
    others = {arm: {"probes": {0: [1.0, 4.0]}} for arm in ("preln_nowarm_anchored", "deepnorm_nowarm", "rezero_nowarm")}
    row = judged("X-4", {**others, "admin_nowarm_high": {"bleu": 29.0}})
    assert row["verdict"] == "contradicted" and "trains at the higher rate in 0 of 5" in row["ours"]


def test_a_scheme_that_was_not_probed_leaves_the_open_question_open() -> None:
    row = judged("X-4", {"admin_nowarm": {"probes": {}}})
    assert (row["verdict"], "admin: not probed in every seed, trains in 5 of 5" in row["ours"]) == (
        "inconclusive",
        True,
    )


def test_one_depth_at_which_deepnorm_alone_trains_is_enough() -> None:
    assert judged("X-1", {"postln_warm_deep": {"bleu": 2.0}, "postln_warm_deeper": {"bleu": 33.0}})["verdict"] == (
        "reproduced"
    )


def test_the_literal_reading_asks_for_the_papers_number_and_the_other_does_not() -> None:
    assert judged("MT-1", {"postln_nowarm_literal": {"bleu": 1.0}})["verdict"] == "contradicted"
    assert judged("MT-1.anchored", {"postln_nowarm": {"bleu": 1.0}})["verdict"] == "reproduced"


def test_where_an_interval_holds_the_edge_more_seeds_are_asked_for() -> None:
    row = judged("MT-4", {"preln_nowarm": {"bleu": 32.05}, "postln_warm": {"bleu": 32.6}})
    assert row["verdict"] == "inconclusive"
    assert row["needs"].startswith("about ") and row["needs"].endswith(" more seeds")


def test_without_a_run_of_an_arm_the_claim_is_not_run_and_says_what_to_run() -> None:
    claim = CLAIMS["MT-1.anchored"]
    row = row_of(claim, made_evidence("iwslt", {"postln_warm": PAPER["postln_warm"]}))
    assert (row["verdict"], row["needs"]) == ("not-run", "no run of postln_nowarm")
    assert row["command"] == "ln-repro run -m exp=iwslt_postln_warm,iwslt_postln_nowarm seed=1,2,3,4,5"
    assert row["cost_gpu_hours"] == 10


@pytest.mark.parametrize("id", MEASURED)
def test_what_a_claim_says_to_run_can_be_run(id: str) -> None:
    program, verb, multirun, *overrides = row_of(CLAIMS[id], {})["command"].split(" ")
    assert (program, verb, multirun) == ("ln-repro", "run", "-m")
    runs = expand(overrides)
    arms = (*CLAIMS[id].arms, *CLAIMS[id].controls)
    assert len(runs) == len(arms) * SEEDS
    for arm, run in zip(arms, runs[::SEEDS], strict=True):
        assert build(compose(run)).exp == f"{CLAIMS[id].corpus}_{arm}"


def test_other_data_decide_nothing_about_the_papers_and_have_verdicts_of_their_own() -> None:
    toy: Arms = {"postln_warm": {"loss": 2.0}, "postln_nowarm": {"loss": 6.5}}
    row = row_of(CLAIMS["MT-1.anchored"], made_evidence("toy", toy))
    assert (row["verdict"], row["evidence"]) == ("not-run", [])
    (other,) = row["elsewhere"]
    assert (other["data"], other["verdict"], other["seeds"], len(other["evidence"])) == ("toy", "reproduced", 5, 10)
    toy["postln_nowarm"]["loss"] = 2.1
    assert row_of(CLAIMS["MT-1.anchored"], made_evidence("toy", toy))["elsewhere"][0]["verdict"] == "contradicted"


LOSSES = {at: 8.0 - 0.05 * at for at in range(0, 101, 10)}
ELSEWHERE: list[tuple[str, Arms, str, dict[str, Any]]] = [
    ("MT-2", {"postln_warm": {}, "postln_warm_high": {}, "postln_warm_short": {"loss": 4.1},
              "postln_warm_short_high": {"loss": 4.5}}, "postln_warm_short_high", {"loss": 4.0}),
    ("MT-3.anchored", {"postln_warm": {"loss": 2.0}, "postln_warm_sgd": {"loss": 4.0},
                       "postln_nowarm_sgd": {"loss": 5.0}}, "postln_nowarm_sgd", {"loss": 3.5}),
    ("MT-4", {"preln_nowarm": {"loss": 2.0}, "postln_warm": {"loss": 2.0}, "postln_nowarm": {"loss": 6.5}},
     "preln_nowarm", {"loss": 2.3}),
    ("MT-5", {"preln_nowarm": {"falls": LOSSES}, "postln_warm": {"falls": {2 * at: v for at, v in LOSSES.items()}}},
     "postln_warm", {"falls": LOSSES}),
    ("MT-6", {"postln_nowarm_radam_anchored": {"loss": 5.0}, "preln_nowarm_radam_anchored": {"loss": 2.0},
              "preln_nowarm_anchored": {"loss": 2.1}}, "preln_nowarm_anchored", {"loss": 6.0}),
    ("MT-7", {"postln_nowarm_fixed": {"loss": 4.0}, "postln_nowarm_literal_high": {"loss": 5.0},
              "postln_warm": {"loss": 2.0}, "preln_nowarm": {"loss": 2.0}}, "postln_warm", {"loss": 4.5}),
    ("TH-10", {"postln_warm": {"probes": {0: [1.0], 400: [0.1]}}}, "postln_warm", {"probes": {0: [1.0], 400: [0.3]}}),
    ("X-1", {"postln_warm_deep": {"loss": 6.5}, "deepnorm_warm_deep": {"loss": 2.0},
             "postln_warm_deeper": {"loss": 6.5}, "deepnorm_warm_deeper": {"loss": 6.5}},
     "postln_warm_deep", {"loss": 2.0}),
    ("X-2", {"rezero_nowarm": {"loss": 2.1}, "rezero_nowarm_step": {"loss": 2.1}, "postln_warm": {"loss": 2.0}},
     "rezero_nowarm", {"loss": 4.0}),
    ("X-3", {"admin_warm": {"loss": 2.0}, "admin_warm_closed": {"loss": 2.0}, "postln_warm": {"loss": 2.0}},
     "admin_warm_closed", {"loss": 2.1}),
    ("X-4", {"preln_nowarm_anchored": {"loss": 3.0}, "deepnorm_nowarm": {"loss": 3.0}, "rezero_nowarm": {"loss": 3.0},
             "admin_nowarm": {"loss": 2.0, "probes": {0: [1.0, 2.0]}}, "postln_warm": {"loss": 2.0},
             "preln_nowarm_anchored_high": {"loss": 6.5}, "deepnorm_nowarm_high": {"loss": 6.5},
             "rezero_nowarm_high": {"loss": 6.5}, "admin_nowarm_high": {"loss": 2.4},
             "postln_warm_high": {"loss": 2.5}, "postln_warm_short": {"loss": 2.5}}, "admin_nowarm", {"loss": 2.1}),
]  # fmt: skip


@pytest.mark.parametrize(("id", "arms", "arm", "changed"), ELSEWHERE)
def test_the_same_questions_on_toy(id: str, arms: Arms, arm: str, changed: dict[str, Any]) -> None:
    (found,) = row_of(CLAIMS[id], made_evidence("toy", arms))["elsewhere"]
    assert found["verdict"] == "reproduced", found["ours"]
    if id == "MT-7":
        arms = {**arms, "preln_nowarm": changed}
    (found,) = row_of(CLAIMS[id], made_evidence("toy", {**arms, arm: changed}))["elsewhere"]
    assert found["verdict"] == "contradicted", found["ours"]


def test_how_much_is_placement_alone_is_told_beside_the_speed() -> None:
    twice = {2 * at: loss for at, loss in LOSSES.items()}
    arms: Arms = {"preln_nowarm": {"falls": LOSSES}, "postln_warm": {"falls": twice}, "preln_warm": {"falls": twice}}
    (found,) = row_of(CLAIMS["MT-5"], made_evidence("toy", arms))["elsewhere"]
    assert found["ours"] == "updates, Post-LN over Pre-LN 2 [2, 2]; both with warm-up 1 [1, 1]"


def test_every_claim_of_training_has_a_rule() -> None:
    assert set(RULES) == set(CLAIMS)


def test_a_run_with_other_settings_than_its_name_says_is_no_evidence() -> None:
    runs = made_runs("iwslt", {"postln_warm": {}})
    other = made_run("iwslt_postln_warm", 9, 30.0, 4.0, axes={"init": "fairseq"})
    nameless = made_run("iwslt_postln_warm", 10, 30.0, 4.0)
    nameless.record["exp"] = "mine"
    assert set(gather([*runs, other, nameless], named)["iwslt"].arms["postln_warm"]) == {1, 2, 3, 4, 5}


def lost(run: Run, rule: str = "not_finite") -> Run:
    """Return a run as one that diverged after it had learnt."""
    run.record.update(status="diverged", divergence={"rule": rule})
    return run


def test_a_run_whose_numbers_broke_has_failed_whatever_it_was_before() -> None:
    """Section 8.1 of the claims' rules: a run fails below 15 BLEU, or if its numbers are not finite."""
    broken = lost(made_run("iwslt_rezero_nowarm", 1, 31.0, 4.0))
    assert (broken.bleu, broken.loss, broken.nll) == (0.0, math.inf, math.inf)
    stuck = lost(made_run("iwslt_rezero_nowarm", 1, 31.0, 4.0), "stuck")
    assert (stuck.bleu, stuck.loss) == (31.0, 4.0)
    runs = made_runs("iwslt", {arm: PAPER[arm] for arm in CLAIMS["X-2"].arms})
    for rule in ("not_finite", "stuck"):
        row = row_of(
            CLAIMS["X-2"], gather([lost(run, rule) if "step" in run.record["exp"] else run for run in runs], named)
        )
        assert row["verdict"] == "contradicted" and "step's tail in 0 of 5" in row["ours"]


@pytest.mark.parametrize("id", [id for id in MEASURED if id != "TH-10"])
@pytest.mark.parametrize("kept", [0, 3])
def test_every_rule_can_be_asked_when_a_run_of_any_arm_was_lost(id: str, kept: int) -> None:
    """After some epochs, or before the first; its last loss was no number, and no arm is as it was."""
    for arm in CLAIMS[id].arms:
        runs = made_runs(CLAIMS[id].corpus, {name: PAPER[name] for name in CLAIMS[id].arms})
        for run in runs:
            if run.record["exp"].endswith(f"_{arm}") and run.record["axes"]["seed"] == 3:
                lost(run).record["epochs"][kept:] = [{**run.record["epochs"][kept], "valid_loss": None}]
        row = row_of(CLAIMS[id], gather(runs, named))
        assert row["verdict"] != "not-run"
        for others in ("toy", "tatoeba"):
            moved = [
                Run({**run.record, "exp": run.record["exp"].replace(CLAIMS[id].corpus, others, 1)}) for run in runs
            ]
            assert row_of(CLAIMS[id], {others: gather_all(moved)}) is not None


def gather_all(runs: list[Run]) -> Evidence:
    """Return runs as evidence whatever their axes are."""
    found: dict[str, dict[int, Run]] = {}
    for run in runs:
        corpus, _, arm = run.record["exp"].partition("_")
        found.setdefault(arm, {})[run.record["axes"]["seed"]] = run
    return Evidence(corpus, found)


@pytest.mark.parametrize("corpus", OTHER_CORPORA)
def test_progress_is_known_on_every_corpus(corpus: str) -> None:
    """Also that of a run that was lost: none."""
    runs = made_runs(corpus, {"postln_warm": {"loss": 3.0}, "postln_nowarm": {"loss": 3.0}})
    evidence = gather_all([lost(run, "stuck") if "nowarm" in run.record["exp"] else run for run in runs])
    assert evidence.progress("postln_warm") == pytest.approx([1.0] * 5, abs=0.02)
    assert evidence.progress("postln_nowarm") == [0.0] * 5


def test_two_runs_lost_alike_say_nothing_of_their_difference() -> None:
    arms = {arm: {"loss": 2.0} for arm in CLAIMS["MT-2"].arms} | {"postln_warm_short_high": {"loss": 4.0}}
    runs = made_runs("toy", arms)
    (found,) = row_of(CLAIMS["MT-2"], gather(runs, named))["elsewhere"]
    assert found["verdict"] == "reproduced"
    for run in runs:
        if run.record["axes"]["seed"] == 3 and "high" in run.record["exp"]:
            lost(run)
    (found,) = row_of(CLAIMS["MT-2"], gather(runs, named))["elsewhere"]
    assert found["verdict"] == "inconclusive", found["ours"]


@pytest.mark.parametrize(("low", "says"), [(8.0, True), (15.6, False)])
def test_a_pre_ln_that_fails_alike_takes_the_explanation_away(low: float, says: bool) -> None:
    arms = {arm: PAPER[arm] for arm in CLAIMS["MT-1"].arms} | {"preln_nowarm_literal": {"bleu": low}}
    row = row_of(CLAIMS["MT-1"], made_evidence("iwslt", arms))
    assert (row["verdict"], "starves explains the number" in row["ours"]) == ("reproduced", says)
    assert "iwslt_preln_nowarm_literal" in row["command"]


def test_ratios_are_judged_on_a_log_scale() -> None:
    ratios = [1.3, 1.4, 1.6, 3.0, 5.0]
    assert interval(ratios)[0] < 1 < interval(ratios, RATIO)[0]
    assert interval([0.5, 2.0, 1.0], RATIO)[0] == pytest.approx(1 / interval([0.5, 2.0, 1.0], RATIO)[1])
    assert interval([1.0, 2.0, math.inf], RATIO) == (1.0, math.inf)
    assert interval([0.0, 2.0, 1.0], RATIO) == (0.0, 2.0)
    assert interval([1.0, math.nan, 2.0]) == interval([1.0, math.nan, 2.0], RATIO) == (-math.inf, math.inf)


def test_a_run_that_diverged_counts_as_what_it_is() -> None:
    failed = made_run("iwslt_postln_nowarm", 1, 0.0, 7.0)
    failed.record["epochs"] = []
    failed.record["bleu"] = {"test": None, "test_tokenised": None}
    assert (failed.bleu, failed.loss) == (0.0, float("inf"))
    arms = {arm: PAPER[arm] for arm in ("postln_warm", "postln_nowarm")}
    runs = [run if run.record["id"] != "iwslt_postln_nowarm-1" else failed for run in made_runs("iwslt", arms)]
    row = row_of(CLAIMS["MT-1.anchored"], gather(runs, named))
    assert (row["verdict"], row["seeds"]) == ("reproduced", 5)
    assert "without 6.8" in row["ours"], "the mean of 0 and four around 8.5"
