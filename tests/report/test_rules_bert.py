"""The rules on pre-training, on both sides of each of their thresholds, with made-up runs."""

import math
from typing import Any

import pytest
from ln_repro.paper.claims import PRETRAINING
from ln_repro.report.claims import cells, claims_table, row_of
from ln_repro.report.rules_bert import LOST, at, updates_ratio

from tests.report.made_records import EPOCHS, made_evidence, made_run

Arms = dict[str, dict[str, Any]]
SPEED, HIGH_RATE = PRETRAINING


def falling(times: float) -> dict[int, float]:
    """Return a validation loss that falls by so many tenths of a bit an epoch."""
    return {epoch: 9 - 0.1 * times * epoch for epoch in range(1, EPOCHS + 1)}


def verdict_of_speed(times: float, corpus: str = "bert") -> Any:
    """Return what BERT-1 comes to where Pre-LN falls so many times as fast as Post-LN."""
    arms: Arms = {"preln_nowarm_linear_high": {"losses": falling(times)}, "postln_warm_linear": {"losses": falling(1)}}
    row = row_of(SPEED, made_evidence(corpus, arms))
    return row if corpus == "bert" else row["elsewhere"][0]


@pytest.mark.parametrize(
    ("times", "verdict", "elsewhere"),
    [
        (1.4, "reproduced", "reproduced"),
        (1.16, "reproduced", "reproduced"),
        (1.69, "reproduced", "reproduced"),
        (1.14, "contradicted", "reproduced"),
        (1.71, "contradicted", "reproduced"),
        (1.01, "contradicted", "reproduced"),
        (0.99, "contradicted", "contradicted"),
    ],
)
def test_bert_1_is_how_many_times_as_long_post_ln_takes(times: float, verdict: str, elsewhere: str) -> None:
    assert verdict_of_speed(times)["verdict"] == verdict
    for setting, data, kind in (("toybert", "toy", "toy"), ("minibert", "multi30k", "adapted")):
        found = verdict_of_speed(times, setting)
        assert (found["data"], found["class"], found["verdict"]) == (data, kind, elsewhere)


def test_the_ratio_is_taken_at_the_loss_of_seventy_percent_of_the_run() -> None:
    post = made_run("bert_postln_warm_linear", 1, 0, 9, losses=falling(1))
    for times in (1.4, 2.0):
        pre = made_run("bert_preln_nowarm_linear_high", 1, 0, 9, losses=falling(times))
        assert updates_ratio(pre, post) == pytest.approx(times)
    assert at({100: 1.0, 200: 3.0}, 150) == 2.0
    assert at({100: 1.0}, 70) == 1.0
    never = made_run("bert_preln_nowarm_linear_high", 1, 0, 9, losses=falling(0))
    assert updates_ratio(never, post) == 0
    nothing = made_run("bert_postln_warm_linear", 1, 0, 9)
    nothing.record["epochs"] = []
    assert updates_ratio(never, nothing) == math.inf


def test_what_is_placement_alone_is_told_beside_the_speed() -> None:
    arms: Arms = {
        "preln_nowarm_linear_high": {"losses": falling(1.4)}, "postln_warm_linear": {"losses": falling(1)},
        "preln_warm_linear": {"losses": falling(1.2)},
    }  # fmt: skip
    row = row_of(SPEED, made_evidence("bert", arms))
    assert row["ours"] == (
        "updates, Post-LN over Pre-LN 1.4 [1.4, 1.4]; both at the low rate with warm-up 1.2 [1.2, 1.2]"
    )


def outcome(corpus: str, post: float, pre: float, lost_seeds: int = 5, diverged: str = "") -> Any:
    """Return what BERT-2 comes to: bits above Post-LN's loss at the low rate, Post-LN's in so many seeds."""
    arms: Arms = {"postln_warm_linear": {}, "postln_warm_linear_high": {"loss": 4 + post},
                  "preln_nowarm_linear_high": {"loss": 4 + pre}}  # fmt: skip
    evidence = made_evidence(corpus, arms)
    runs = evidence[corpus].arms
    for seed, run in runs["postln_warm_linear_high"].items():
        if seed > lost_seeds:
            run.record["epochs"] = runs["postln_warm_linear"][seed].record["epochs"]
    if diverged:
        runs[diverged][3].record["status"] = "diverged"
    row = row_of(HIGH_RATE, evidence)
    return row if corpus == "bert" else row["elsewhere"][0]


@pytest.mark.parametrize("corpus", ["bert", "toybert", "minibert"])
@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        ({"post": LOST + 0.01, "pre": -0.5}, "reproduced"),
        ({"post": LOST - 0.01, "pre": -0.5}, "contradicted"),
        ({"post": 2.0, "pre": LOST - 0.01}, "reproduced"),
        ({"post": 2.0, "pre": LOST + 0.01}, "contradicted"),
        ({"post": 2.0, "pre": 0.0, "lost_seeds": 3}, "reproduced"),
        ({"post": 2.0, "pre": 0.0, "lost_seeds": 2}, "contradicted"),
        ({"post": 2.0, "pre": 0.0, "lost_seeds": 2, "diverged": "postln_warm_linear_high"}, "reproduced"),
        ({"post": 2.0, "pre": 0.0, "diverged": "preln_nowarm_linear_high"}, "contradicted"),
    ],
)
def test_bert_2_is_in_how_many_seeds_a_run_is_lost(corpus: str, given: dict[str, Any], verdict: str) -> None:
    found = outcome(corpus, **given)
    assert found["verdict"] == verdict, found["ours"]
    assert found["ours"].startswith("at the high rate Post-LN lost in ")


def test_half_a_nat_is_counted_in_bits() -> None:
    assert pytest.approx(2**0.7213475) == math.exp(0.5) and pytest.approx(0.7213475) == LOST


def test_three_seeds_decide_nothing() -> None:
    arms: Arms = {arm: {} for arm in SPEED.arms}
    row = row_of(SPEED, made_evidence("bert", arms, seeds=3))
    assert (row["verdict"], row["needs"]) == ("inconclusive", "2 more seeds")


def test_a_verdict_elsewhere_stands_under_its_data() -> None:
    arms: Arms = {"preln_nowarm_linear_high": {"losses": falling(2)}, "postln_warm_linear": {"losses": falling(1)}}
    row = row_of(SPEED, made_evidence("minibert", arms))
    columns = claims_table([row])["columns"]
    assert dict(zip(columns, cells(row), strict=True))["multi30k"] == "reproduced (5)"
    assert row["verdict"] == "not-run" and row["cost_gpu_hours"] > 100
    assert row["command"] == (
        "ln-repro run -m exp=bert_preln_nowarm_linear_high,bert_postln_warm_linear seed=1,2,3,4,5 data.train=FILE "
        "data.valid=FILE"
    )
