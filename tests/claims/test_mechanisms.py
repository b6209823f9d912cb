"""What probes and interventions say about a possible cause of Post-LN's need for warm-up, on made-up runs."""

from typing import Any

import pytest

from ln_repro.claims.evidence import Evidence
from ln_repro.claims.mechanisms import CAUSE, MECHANISMS, NO_CAUSE, OPEN, START, assess, instability
from ln_repro.records.archive import Run
from ln_repro.report.export import mechanisms_table
from tests.claims.made import gathered, made
from tests.examples import with_events

GI_ADAM: dict[str, Any] = {"optimizer__second_moment": "gradient"}


def probed(arm: str, seed: int, bleu: float, ratio: float, **changes: Any) -> Run:
    """Return a run whose learning rate times sharpness is at most ``ratio`` thresholds at the start and more later."""
    run = made(f"toy_{arm}", seed, bleu, **changes)
    events = [
        {"kind": "probe", "name": "curvature", "update": update, "batches": 5,
         "values": {"rate_times_sharpness": 38 * part * ratio, "threshold": 38.0}}
        for update, part in ((0, 0.5), (8, 1.0), (START, 0.1), (2 * START, 100.0))
    ]  # fmt: skip
    return with_events(run.record, [*run.events, *events])


def trial(failing: float, training: float, bleus: list[float], left: float) -> Evidence:
    """Return runs that fail, that train and that have the intervention, with these instabilities."""
    runs = []
    for seed, bleu in enumerate(bleus, 1):
        runs += [probed("postln_nowarm", seed, 1.0, failing), probed("postln_warm", seed, 30.0, training)]
        runs += [probed("postln_nowarm", seed, bleu, left, **GI_ADAM)]
    return gathered(runs)["toy"]


@pytest.mark.parametrize(
    ("failing", "training", "bleus", "left", "verdict"),
    [
        (3.0, 0.5, [30.0] * 5, 0.5, CAUSE),
        (3.0, 0.5, [30.0] * 4 + [1.0], 0.5, CAUSE),
        (3.0, 0.5, [1.0] * 5, 0.5, NO_CAUSE),  # removed, and it does not help
        (3.0, 0.5, [30.0] + [1.0] * 4, 0.5, NO_CAUSE),  # one of five is few
        (3.0, 0.5, [1.0] * 5, 2.0, OPEN),  # the intervention did not remove it
        (3.0, 0.5, [30.0, 30.0, 1.0, 1.0, 1.0], 0.5, OPEN),
        (3.0, 2.0, [30.0] * 5, 0.5, NO_CAUSE),  # runs with it train
        (0.5, 0.2, [30.0] * 5, 0.1, NO_CAUSE),  # runs without it fail
        (3.0, 0.5, [30.0] * 4, 0.5, OPEN),  # four seeds are too few
    ],
)
def test_a_cause_is_present_at_failure_absent_at_success_and_its_removal_helps(failing, training, bleus, left, verdict):
    found, seeds = assess(trial(failing, training, bleus, left))[1], len(bleus)
    assert found.verdict == verdict
    assert found.failing == (seeds * (failing > 1), seeds) and found.training == (seeds * (training > 1), seeds)
    assert found.removed == (seeds * (left <= 1), seeds)
    assert found.rescued == (sum(bleu > 20 for bleu in bleus), seeds)


def test_without_a_threshold_of_theory_it_is_present_above_the_largest_value_of_a_run_that_trains():
    runs = [
        made(f"toy_{arm}", seed, bleu, probes={8: [1.0, most + seed / 10]})
        for arm, bleu, most in (("postln_nowarm", 1.0, 9.0), ("postln_warm", 30.0, 4.0))
        for seed in range(1, 6)
    ]
    (uneven, *_) = assess(gathered(runs)["toy"])
    assert uneven.limit == pytest.approx(4.5) and uneven.failing == (5, 5) and uneven.training == (0, 5)
    assert uneven.rescued == (0, 0) and uneven.verdict == OPEN
    (unknown, *_) = assess(gathered([made("toy_postln_warm", seed, 30.0) for seed in range(1, 6)] + runs[:5])["toy"])
    assert unknown.limit is None and unknown.verdict == OPEN  # no run that trains was probed


def test_runs_that_were_not_probed_where_failing_ones_were_do_not_count():
    runs = [made("toy_postln_nowarm", seed, 1.0, probes={0: [1.0, 2.0], 8: [1.0, 9.0]}) for seed in range(1, 6)]
    runs += [made("toy_postln_warm", seed, 30.0, probes={0: [1.0, 3.0]}) for seed in range(1, 6)]
    runs += [made("toy_postln_warm", 6, 30.0, probes={0: [1.0, 1.0], 8: [1.0, 2.0], 16: [1.0, 1.0]})]
    (uneven, *_) = assess(gathered(runs)["toy"])
    assert uneven.limit == 2 and uneven.training == (0, 1) and uneven.failing == (5, 5)


def test_the_table_has_a_row_for_each_mechanism_with_its_counts():
    table = mechanisms_table(trial(3.0, 0.5, [28.0] * 5, 0.5))
    assert [row[0] for row in table["rows"]] == [mechanism.name for mechanism in MECHANISMS]
    assert table["rows"][1][2:8] == ["1", "5 of 5", "0 of 5", MECHANISMS[1].option, "5 of 5", "5 of 5"]
    assert table["rows"][1][-1] == CAUSE and table["rows"][0][-1] == OPEN


def test_a_probe_with_a_value_that_is_not_finite_is_left_out() -> None:
    run = probed("postln_nowarm", 1, 1.0, 3.0)
    lost = {"values": {"rate_times_sharpness": None, "threshold": 38.0}}
    events = [event | lost if event.get("update") == 8 else event for event in run.events]
    assert {*instability(run)} - {*instability(with_events(run.record, events))} == {8}
