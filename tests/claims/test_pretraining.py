"""The rules on BERT that count seeds and pair checkpoints: on both sides of their thresholds, with made-up runs."""

import math
from typing import Any

import pytest

from ln_repro.claims.evidence import FINE_TUNED_FROM, Run
from ln_repro.claims.judge import row_of
from ln_repro.claims.metrics import UPDATES_TO_PRETRAINING_LOSS, at
from ln_repro.claims.pretraining import FINE_TUNING, LOST, PRETRAINING
from tests.claims.made import EPOCHS, gathered, line, made, made_runs

HIGH_RATE, MRPC = PRETRAINING[1], FINE_TUNING[0]
PRE, POST = MRPC.rule.arms
SIX = (1, 2, 3, 4, 5, 6)


def outcome(post: float, pre: float, lost_seeds: int = 5, diverged: str = "") -> str:
    """Return what BERT-2 comes to: bits above Post-LN's loss at the low rate, Post-LN's in so many seeds."""
    arms = {"postln_warm_linear": 0.0, "postln_warm_linear_high": post, "preln_nowarm_linear_high": pre}
    runs = [
        made(f"bert_{arm}", seed, loss=4.0 if "postln" in arm and seed > lost_seeds else 4 + above,
             rule="stuck" if (arm, seed) == (diverged, 3) else "")
        for arm, above in arms.items() for seed in range(1, 6)
    ]  # fmt: skip
    return str(row_of(HIGH_RATE, gathered(runs))["verdict"])


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
def test_bert_2_is_in_how_many_seeds_a_run_is_lost(given: dict[str, Any], verdict: str) -> None:
    assert outcome(**given) == verdict
    assert math.exp(0.5) == pytest.approx(2**LOST), "half a nat, in bits"


def test_bert_1_is_measured_at_the_loss_after_seventy_percent_of_the_run() -> None:
    post = made("bert_postln_warm_linear", losses=line(9, 7.6, EPOCHS))
    for times in (1.4, 2.0):
        pre = made("bert_preln_nowarm_linear_high", losses=line(9 + 0.1 - 0.1 * times, 9.1 - 1.5 * times, EPOCHS))
        assert UPDATES_TO_PRETRAINING_LOSS.of(post, pre) == pytest.approx(times)
    never, nothing = (made("bert_preln_nowarm_linear_high", losses=losses) for losses in ([9.0] * EPOCHS, [None]))
    assert (
        UPDATES_TO_PRETRAINING_LOSS.of(post, never) == 0 and UPDATES_TO_PRETRAINING_LOSS.of(nothing, post) == math.inf
    )
    assert at({100: 1.0, 200: 3.0}, 150) == 2.0 and at({100: 1.0}, 70) == 1.0


def test_what_is_placement_alone_is_told_beside_the_speed() -> None:
    losses = {"preln_nowarm_linear_high": 1.4, "postln_warm_linear": 1.0, "preln_warm_linear": 1.2}
    arms = {arm: {"losses": [9 - 0.1 * times * at for at in range(1, 16)]} for arm, times in losses.items()}
    row = row_of(PRETRAINING[0], gathered(made_runs("bert", arms)))
    assert row["verdict"] == "reproduced" and "Pre-LN with warm-up (linear decay) to the former's" in row["ours"]
    assert row["ours"].count("1.4 [1.4, 1.4]") == row["ours"].count("1.2 [1.2, 1.2]") == 1


def tuned(arm: str, seed: int, start: int, accuracy: float, begun: str = "") -> Run:
    """Return a run that began after so many updates of pre-training, the paper's or another arm's."""
    begun = begun or FINE_TUNED_FROM[arm.partition("_")[0]]
    run = made(f"mrpc_{arm}", seed, axes={"start": f"bert_{begun}@{start}"})
    run.record["id"] += f"-{start}"
    run.record["experiment"] |= {
        "task": "classification", "data": {**run.record["experiment"]["data"], "name": "mrpc"},
        "start": {"given": "RUN@1", "id": "0123456789", "exp": f"bert_{begun}", "update": start, "epoch": 1, "sha256": "0"},
    }  # fmt: skip
    for row in run.record["epochs"]:
        row["valid_accuracy"] = 0.1  # what an early epoch had does not count
    run.record["epochs"][-1]["valid_accuracy"] = accuracy
    return run
