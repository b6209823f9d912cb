"""The rules on BERT that count seeds and pair checkpoints: on both sides of their thresholds, with made-up runs."""

import math
from typing import Any

import pytest

from ln_repro.claims.evidence import FINE_TUNED_FROM, PRETRAINED_IN
from ln_repro.claims.judge import Judged, row_of
from ln_repro.claims.metrics import UPDATES_TO_PRETRAINING_LOSS
from ln_repro.claims.rules.bert import FINE_TUNING, NOT_TRAINED_MARGIN, PRETRAINING
from ln_repro.experiment.divergence import NOT_FINITE
from ln_repro.experiment.model import Start
from ln_repro.records.archive import Run
from tests.claims.made import EPOCHS, RATE, gathered, line, made

HIGH_RATE, MRPC = PRETRAINING[1], FINE_TUNING[0]
PRE, POST = MRPC.rule.arms
SIX = (1, 2, 3, 4, 5, 6)


@pytest.mark.parametrize(("pre", "lost_seeds", "diverged", "verdict"), [
    (NOT_TRAINED_MARGIN + 0.01, 5, "", "contradicted"),
    (0.0, 3, "", "reproduced"),
    (0.0, 2, "", "contradicted"),
    (0.0, 2, "postln_warm_linear_high", "reproduced"),
    (0.0, 5, "preln_nowarm_linear_high", "contradicted"),
])  # fmt: skip
def test_bert_2_counts_the_seeds_that_do_not_train(pre: float, lost_seeds: int, diverged: str, verdict: str) -> None:
    """``pre`` is Pre-LN's loss above Post-LN's at the low rate; Post-LN fails at the high one in so many seeds."""
    arms = {"postln_warm_linear": 0.0, "postln_warm_linear_high": 2.0, "preln_nowarm_linear_high": pre}
    runs = [
        made(f"bert_{arm}", seed, loss=4.0 if "postln" in arm and seed > lost_seeds else 4 + above,
             rule="stuck" if (arm, seed) == (diverged, 3) else "")
        for arm, above in arms.items() for seed in range(1, 6)
    ]  # fmt: skip
    assert row_of(HIGH_RATE, gathered(runs), {}).own.verdict == verdict


def test_a_run_that_rises_again_ends_where_it_ends() -> None:
    """Post-LN's loss falls to 3 bits and ends at 9, with the reference at 2.6."""
    losses = {"postln_warm_linear": [9.0, 2.6], "postln_warm_linear_high": [5.0, 3.0, 9.0],
              "preln_nowarm_linear_high": [9.0, 2.6]}  # fmt: skip
    runs = [made(f"bert_{arm}", seed, losses=of_arm) for arm, of_arm in losses.items() for seed in range(1, 6)]
    assert row_of(HIGH_RATE, gathered(runs), {}).own.verdict == "reproduced"


def test_bert_1_is_measured_at_the_loss_after_seventy_percent_of_the_run() -> None:
    post = made("bert_postln_warm_linear", losses=line(9, 7.6, EPOCHS))
    lost = made("bert_postln_warm_linear", losses=[9.0, 8.0], rule=NOT_FINITE)
    never, nothing = (made("bert_preln_nowarm_linear_high", losses=losses) for losses in ([9.0] * EPOCHS, [None]))
    twice = made("bert_preln_nowarm_linear_high", losses=line(9 + 0.1 - 0.1 * 2, 9.1 - 1.5 * 2, EPOCHS))
    pairs = [(post, twice), (post, never), (nothing, post), (lost, post), (lost, lost)]
    ratios = [UPDATES_TO_PRETRAINING_LOSS.of(*pair) for pair in pairs]
    assert ratios == pytest.approx([2.0, 0, math.inf, math.inf, math.nan], nan_ok=True)


def tuned(
    arm: str, seed: int, start: int, accuracy: float, begun: str = "", setting: str = "mrpc",
    source: str = "0123456789", place: str = "",
) -> Run:  # fmt: skip
    """Return a run that began after so many updates of pre-training, the paper's or another arm's, with its text."""
    place = place or PRETRAINED_IN[setting]
    weights = {"given": "RUN@1", "run": source, "exp": f"{place}_{begun or FINE_TUNED_FROM[arm.partition('_')[0]]}",
               "update": start, "epoch": 1, "sha256": str(start)}  # fmt: skip
    run = made(f"{setting}_{arm}", seed, data__vocabulary="sha256:0", data__bpe_merges=5, start=Start(**weights))
    run.record.id += f"-{start}"
    for row in run.record.epochs:
        row.valid_accuracy = 0.1  # what an early epoch had does not count
    run.record.epochs[-1].valid_accuracy = accuracy
    return run


def runs_of(gains: dict[int, float], noise: float = 0.004, setting: str = "mrpc") -> list[Run]:
    """Return both arms: by start, how much more accuracy Pre-LN has; seeds differ by the noise."""
    return [
        tuned(arm, seed, start, 0.7 + start / 1e6 + (gain + noise * (-1) ** seed) * (arm == PRE), setting=setting)
        for start, gain in gains.items()
        for seed in SIX
        for arm in (PRE, POST)
    ]


def judged(runs: list[Run]) -> Judged:
    return row_of(MRPC, gathered(runs), {}).own


@pytest.mark.parametrize(("gains", "noise", "verdict"), [
    ((0.03, 0.03, -0.01), 0.004, "reproduced"),  # two thirds of the checkpoints are enough
    ((0.06, -0.01, -0.01), 0.004, "contradicted"),  # one is not, however large
    ((0.003, 0.003, 0.003), 0.02, "inconclusive"),  # the interval of the difference contains 0
    ((-0.003, -0.003, -0.003), 0.02, "inconclusive"),  # also if the mean is below
    ((0.01, 0.01, -0.03), 0.0005, "contradicted"),  # two thirds, and yet less on the whole
])  # fmt: skip
def test_bert_3_is_where_pre_ln_is_above(gains: Any, noise: float, verdict: str) -> None:
    result = judged(runs_of(dict(zip((100, 200, 300), gains, strict=True)), noise))
    assert (result.verdict, result.seeds) == (verdict, 6), result.ours
    assert f"above at {sum(gain > 0 for gain in gains)} of 3 checkpoints" in result.ours
    assert len(result.evidence) == len(set(result.evidence)) == 2 * 3 * 6
    effect = judged(runs_of({100: 0.01, 200: 0.05}, noise=0.0)).effect
    assert effect and effect.value == pytest.approx(3.0)


def test_only_equally_long_pre_training_is_compared() -> None:
    gains = {100: 0.03, 200: 0.03, 300: 0.03}
    runs = runs_of(gains)
    assert judged([*runs, *(tuned(PRE, seed, 900, 0.1) for seed in SIX)]).verdict == "reproduced"
    apart = [tuned(PRE, seed, 100, 0.9) for seed in SIX] + [tuned(POST, seed, 200, 0.1) for seed in SIX]
    lacking = [run for run in runs if (run.seed, run.record.id[-3:]) != (6, "200")]
    noisy = runs_of(dict.fromkeys(gains, 0.003), noise=0.02)
    for of_case, needs in ((apart, f"{PRE} and {POST} with the same seeds and checkpoints"), (lacking, "1 seed"),
                           (noisy, "about "), (runs_of({100: 0.03, 200: 0.03}), "3 checkpoints")):  # fmt: skip
        result = judged(of_case)
        assert result.verdict == "inconclusive" and (result.needs or "").startswith(needs)


def test_runs_without_the_papers_pre_training_are_no_evidence() -> None:
    runs = runs_of({100: 0.03, 200: 0.03})
    controls = [made(f"mrpc_{arm}", seed) for arm in (PRE, POST) for seed in SIX]
    assert judged(controls).verdict == "inconclusive" and judged([*controls, *runs]).ours == judged(runs).ours
    other = tuned(POST, 1, 300, 0.9, begun="postln_warm_linear_high")
    assert judged([*runs, other]) == judged(runs)
    assert judged([*runs, tuned(POST, 1, 300, 0.9, place="wikinews")]) == judged(runs)
    assert [*gathered([*runs, tuned(PRE, 1, 100, 0.5, setting="rte")])] == ["mrpc", "rte"]


def test_the_settings_of_the_pre_training_decide_and_not_its_name() -> None:
    """The paper's arm may have been run under another name, and its name with another rate."""
    starts = [(start, seed) for start in (100, 200, 300) for seed in SIX]
    posts = [tuned(POST, seed, start, 0.8, source="1234567890") for start, seed in starts]
    pres = [tuned(PRE, seed, start, 0.9, begun="preln_nowarm_linear") for start, seed in starts]
    assert judged([*pres, *posts]).verdict == "not-run"
    for times, verdict in ((2, "reproduced"), (3, "not-run")):  # FINE_TUNED_FROM has twice the rate
        pretrained = made("bert_preln_nowarm_linear", lr=times * RATE)
        pretrained.record.id = "0123456789"
        assert judged([*pres, *posts, pretrained]).verdict == verdict
