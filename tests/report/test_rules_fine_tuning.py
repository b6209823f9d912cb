"""The rule on fine-tuning, on both sides of its thresholds, and its figure, with made-up runs."""

from pathlib import Path
from typing import Any

import pytest
from ln_repro.paper.claims import FINE_TUNING
from ln_repro.report.claims import row_of
from ln_repro.report.evidence import FINE_TUNED_FROM, Run, gather, strays

from ln_repro.compose import compose, expand, named
from ln_repro.experiment import build
from ln_repro.report.figures import draw_runs, records_by_arm
from ln_repro.report.series import curve
from tests.report.made_records import made_run

MRPC, RTE = FINE_TUNING
PRE, POST = MRPC.arms
SIX = (1, 2, 3, 4, 5, 6)


def tuned(arm: str, seed: int, start: int, accuracy: float, corpus: str = "mrpc", begun: str = "") -> Run:
    """Return a run that began after so many updates of pre-training, the paper's or another arm's."""
    run = made_run(f"{corpus}_{arm}", seed, 0, 1.0)
    run.record["id"] += f"-{start}"
    run.record["experiment"] = {"start": {"update": start}}
    run.record["axes"]["start"] = f"bert_{begun or FINE_TUNED_FROM[run.record['axes']['norm']]}@{start}"
    for row in run.record["epochs"]:
        row["valid_accuracy"] = 0.1  # what an early epoch had does not count
    run.record["epochs"][-1]["valid_accuracy"] = accuracy
    return run


def runs_of(gains: dict[int, float], noise: float = 0.004, seeds: Any = SIX) -> list[Run]:
    """Return both arms: by start, how much more accuracy Pre-LN has; seeds differ by the noise."""
    return [
        tuned(arm, seed, start, 0.7 + start / 1e6 + (gain + noise * (-1) ** seed) * (arm == PRE))
        for start, gain in gains.items()
        for seed in seeds
        for arm in (PRE, POST)
    ]


def judged(runs: list[Run]) -> Any:
    return row_of(MRPC, gather(runs, named))


@pytest.mark.parametrize(
    ("gains", "noise", "verdict"),
    [
        ((0.03, 0.03, 0.03), 0.004, "reproduced"),
        ((0.03, 0.03, -0.01), 0.004, "reproduced"),  # two thirds of the checkpoints are enough
        ((0.06, -0.01, -0.01), 0.004, "contradicted"),  # one is not, however large
        ((-0.03, -0.03, -0.03), 0.004, "contradicted"),
        ((0.003, 0.003, 0.003), 0.02, "inconclusive"),  # the interval of the difference holds 0
        ((0.01, 0.01, -0.03), 0.0005, "contradicted"),  # two thirds, and yet less on the whole
    ],
)
def test_bert_3_is_where_pre_ln_is_above(gains: Any, noise: float, verdict: str) -> None:
    found = judged(runs_of(dict(zip((100, 200, 300), gains, strict=True)), noise))
    assert (found["verdict"], found["seeds"]) == (verdict, 6), found["ours"]
    assert f"Pre-LN above at {sum(gain > 0 for gain in gains)} of 3 checkpoints" in found["ours"]
    assert len(found["evidence"]) == len(set(found["evidence"])) == 2 * 3 * 6


def test_points_are_of_the_last_epoch_and_pooled_over_checkpoints() -> None:
    found = judged(runs_of({100: 0.01, 200: 0.05}, noise=0.0))
    assert "points, Pre-LN over Post-LN 3 [3, 3]" in found["ours"]


@pytest.mark.parametrize(("seeds", "needs"), [(SIX[:1], "5 more seeds"), (SIX[:5], "1 more seed")])
def test_fewer_than_the_papers_seeds_decide_nothing(seeds: Any, needs: str) -> None:
    found = judged(runs_of({100: 0.2}, seeds=seeds))
    assert found["verdict"] == "inconclusive" and found["needs"].startswith(f"{needs}; PRELN and POSTLN are")


def test_only_equally_long_pre_training_is_compared() -> None:
    runs = runs_of({100: 0.03, 200: 0.03})
    more = [tuned(PRE, seed, 900, 0.1) for seed in SIX]
    assert judged([*runs, *more])["verdict"] == "reproduced"
    apart = [tuned(PRE, seed, 100, 0.9) for seed in SIX] + [tuned(POST, seed, 200, 0.1) for seed in SIX]
    found = judged(apart)
    assert found["verdict"] == "not-run" and "from equally long pre-training" in found["needs"]
    without = [run for run in runs if (run.record["axes"]["seed"], run.record["id"][-3:]) != (6, "200")]
    assert (judged(without)["verdict"], judged(without)["seeds"]) == ("inconclusive", 5)


def test_runs_from_several_starts_are_no_doubles() -> None:
    runs = runs_of({100: 0.03, 200: 0.03})
    assert strays(runs, named) == []
    assert len(strays([*runs, made_run(f"mrpc_{PRE}", 1, 0, 1.0)], named)) == 1  # a control without a start
    other = tuned(POST, 1, 300, 0.9, begun="postln_warm_linear_high")
    assert strays([*runs, other], named) == [f"mrpc_{POST}: start=bert_postln_warm_linear_high@300 (1 of its records)"]
    small = made_run(f"mrpc_{PRE}", 1, 0, 1.0, axes={"model": "toy"})
    assert gather([small], named) == {}


def test_the_figure_is_accuracy_by_length_of_pre_training(tmp_path: Path) -> None:
    evidence = gather([*runs_of({100: 0.03, 200: 0.05}), tuned(POST, 1, 300, 0.5)], named)
    arms = records_by_arm(evidence["mrpc"])
    pre, post = (curve(arms[arm], "accuracy") for arm in (PRE, POST))
    assert pre and pre.seeds == 6 and pre.means == {100: pytest.approx(73.01), 200: pytest.approx(75.02)}
    assert post and post.means[300] == 50.0 and [*post.intervals] == [100, 200]
    assert draw_runs(evidence, tmp_path).paths == [tmp_path / "mrpc" / f"figure_5.{kind}" for kind in ("png", "svg")]


def test_a_run_without_a_start_is_no_point_of_the_figure() -> None:
    assert curve([tuned(PRE, 1, 100, 0.9).record | {"experiment": {"start": None}}], "accuracy") is None


@pytest.mark.parametrize("claim", FINE_TUNING)
def test_the_commands_are_what_the_claim_needs(claim: Any) -> None:
    row = row_of(claim, {})
    assert row["verdict"] == "not-run" and 0 < row["cost_gpu_hours"] < 10 and "FOLDER is GLUE's" in row["needs"]
    for arm, command in zip(claim.arms, row["command"].split(" && "), strict=True):
        program, verb, multirun, *overrides = command.split()
        assert (program, verb, multirun) == ("ln-repro", "run", "-m")
        runs = [build(compose(one)) for one in expand(overrides)]
        assert {run.exp for run in runs} == {f"{claim.corpus}_{arm}"} and {run.seed for run in runs} == set(SIX)
        assert {run.start.given for run in runs if run.start} == {f"{arm.partition('_')[0].upper()}@EPOCH"}
