"""A record and the run that repeats it: how alike they are, in four grades."""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ln_repro.claims.evidence import EXPLORED, interventions
from ln_repro.errors import UserError
from ln_repro.experiment.compose import compose, flat
from ln_repro.experiment.divergence import NOT_FINITE
from ln_repro.experiment.validation import validate
from ln_repro.records.archive import EVENTS, Run, archived_file
from ln_repro.records.events import valid_events
from ln_repro.records.record import Record
from ln_repro.report import reproduction
from ln_repro.report.reproduction import DIFFERENT, EQUAL, ROUNDING, SAME, arm_of, check_length, compare, differences
from ln_repro.runner.again import again
from tests import committed

OLD, ALONE, LINEAR, LOST = "8ba132bb58", "fc87acbec0", "multi30k_preln_nowarm_radam", "toy_postln_nowarm_sgd_literal"
"""Of seed 1, from before four other seeds and many settings; of the only seed; experiments."""
PLAIN, CAPPED = "957d1c4f28", "66bd8537bc"
"""Of one experiment and seed, without and with a cap on the relative change of a matrix."""


@pytest.fixture(scope="module")
def explored() -> list[Run]:
    return [run for run in committed.archive().kept.runs if run.seed <= EXPLORED]


@cache
def run_of(name: str) -> Run:
    """Return the run of a record by its id, or of an experiment, a diverged one if there is any."""
    runs = [run for run in committed.archive().kept.runs if name in (run.record.id, run.record.exp)]
    run = max(runs, key=lambda run: bool(run.record.divergence))
    events = archived_file(committed.RECORDS, run.record, EVENTS)
    assert events
    return replace(run, events=valid_events(events))


def with_fields(record: Record, **fields: Any) -> Record:
    return validate(Record, {**record.plain(), **fields})


def changed(run: Run, loss: float = 0.0, nll: float = 0.0, **fields: Any) -> Run:
    """Return a run with other fields, every training loss and every validation NLL larger by a part of itself."""
    events = [
        event | {"loss": event["loss"] * (1 + loss)} if event["kind"] == "train" else event for event in run.events
    ]
    record = with_fields(run.record, **fields)
    for row in record.epochs:
        row.valid_nll_loss *= 1 + nll
    return Run(record, events)


@pytest.mark.slow
def test_a_record_holds_its_settings_as_they_were(explored: list[Run], monkeypatch: pytest.MonkeyPatch) -> None:
    searched: set[str] = set()
    composed = cache(compose)  # always the same words
    monkeypatch.setattr("ln_repro.runner.again.compose", lambda words: copy.deepcopy(composed(tuple(words))))
    monkeypatch.setattr("ln_repro.runner.again.with_pretrained", lambda run: searched.add(str(run.paths.runs)) or run)
    different = {(run.record.exp, *flat(run.record.settings)): run.record for run in explored}
    for record in different.values():  # of an experiment, one of those that name the same settings
        experiment = again(record, ["paths.runs=somewhere"])
        then, now = flat(record.experiment.settings()), flat(experiment.settings())
        assert now | {key: then[key] for key in reproduction.NOT_COMPARED} == then
        device = "cpu" if record.environment["device"] == "cpu" else then["train.device"]
        assert (now["train.device"], str(experiment.paths.runs)) == (device, "somewhere/reproduced")
        assert not experiment.stop_on_divergence
        if (record.started or "") > "2026-11-21T13":  # ids had another form before
            assert experiment.id(record.data.fingerprint) == record.id
    assert searched == {"somewhere"}  # not the folder of repeated runs


@pytest.mark.parametrize(
    ("loss", "nll", "grade"),
    [(0.0, 0.0, EQUAL), (1e-9, 0.0, ROUNDING), (1e-5, 1e-4, ROUNDING), (1e-2, 1e-4, SAME), (1e-9, 0.5, DIFFERENT)],
)
def test_four_grades(explored: list[Run], loss: float, nll: float, grade: str) -> None:
    result = compare(run_of(OLD), changed(run_of(OLD), loss, nll), explored)
    assert result.grade == grade
    assert ("valid NLL, epoch 3: not in the range" in result.reason) == (grade == DIFFERENT)


def test_a_training_loss_that_a_save_by_the_clock_cut_in_two_is_not_compared(explored: list[Run]) -> None:
    theirs = run_of(OLD)
    first, second, *rest = [event for event in theirs.events if event["kind"] == "train"]
    half = first | {"update": first["update"] // 2, "loss": first["loss"] + 1}
    others = [event for event in theirs.events if event["kind"] != "train"]
    ours = Run(theirs.record, [*others, half, first | {"loss": first["loss"] - 1}, second, *rest])
    assert compare(theirs, ours, explored).grade == EQUAL


def test_of_a_run_cut_short_only_what_both_have_counts(explored: list[Run]) -> None:
    theirs = run_of(ALONE)
    first = theirs.record.plain()["epochs"][0]
    experiment = copy.deepcopy(theirs.record.settings)
    experiment["train"]["max_epoch"] = 1
    short = changed(theirs, epochs=[first], updates=first["update"], settings=experiment)
    short = Run(short.record, [event for event in short.events if event["update"] <= first["update"]])
    result = compare(theirs, short, explored)
    assert result.grade == EQUAL and result.table.rows[-1][0] == "test BLEU, epoch 1"
    result = compare(theirs, changed(short, 1e-7, 0.01), explored)
    assert result.grade == ROUNDING and "10% of the record, a loose bound (an interval needs 3" in result.reason
    assert compare(theirs, changed(short, 1e-7, 0.11), explored).grade == DIFFERENT
    assert "setting: train.max_epoch 10 then, 1 now" in differences(theirs.record, short.record)
    begun = Run(with_fields(run_of(OLD).record, epochs=[], updates=100), run_of(OLD).events[:3])  # four other seeds
    assert "(an interval needs 3 seeds, not 1)" in compare(run_of(OLD), changed(begun, 1e-7), explored).reason
    *rows, last = theirs.record.plain()["epochs"]
    undecoded = [row | dict.fromkeys(("test_bleu", "test_bleu_tokenised")) for row in rows]
    settings = theirs.record.settings | {"eval": {"epochs": [10]}}
    sparse = changed(theirs, settings=settings, epochs=[*undecoded, last])
    result = compare(sparse, short, explored)  # which was decoded after every epoch
    assert result.grade == EQUAL and result.table.rows[-1][0] == "valid NLL, epoch 1"
    early = Run(with_fields(short.record, epochs=[{**first, "update": 1}]))
    with pytest.raises(UserError, match=r"nothing to compare; give the new run more updates"):
        compare(theirs, early, explored)
    check_length(theirs, None)
    check_length(theirs, 20)
    with pytest.raises(UserError, match=r"train.max_update: needs at least 20 to compare anything, found 19"):
        check_length(theirs, 19)


def test_a_run_that_is_lost_is_repeated_by_one_that_is(explored: list[Run]) -> None:
    theirs = run_of(LOST)
    theirs = changed(theirs, divergence={**theirs.record.plain()["divergence"], "rule": NOT_FINITE})
    later = theirs.record.plain()["divergence"]
    later["update"] += 20
    assert compare(theirs, changed(theirs, 1e-2, divergence=later), explored).grade == SAME
    assert compare(theirs, changed(theirs, status="finished", divergence=None), explored).grade == DIFFERENT


def test_an_arm_is_all_seeds_of_a_run_without_those_with_an_intervention(explored: list[Run]) -> None:
    arm = [run.experiment for run in explored if arm_of(run) == arm_of(run_of(PLAIN))]
    assert sorted(run.seed for run in arm) == [1, 2, 3, 4, 5] and not any(map(interventions, arm))
    settings = copy.deepcopy(run_of(PLAIN).record.settings)
    settings["train"]["label_smoothing"] = 0.0
    assert arm_of(changed(run_of(PLAIN), settings=settings)) != arm_of(run_of(PLAIN))


def test_what_was_different_is_said() -> None:
    record = run_of(CAPPED).record
    record = with_fields(record, settings={**record.settings, "lr": 2e-3 / 3})
    environment = {**record.environment, "torch": "9.9"}
    code = {**record.plain()["code"], "git": "f" * 40, "dirty": True}
    now = with_fields(record, environment=environment, code=code, data={**record.plain()["data"], "fingerprint": "x"})
    assert differences(record, record) == []
    text = "\n".join(differences(record, now))
    assert f"code: {record.code.git[:10]} then, {'f' * 10}, changed, now" in text
    assert f"git worktree add ../ln-repro-{record.code.git[:10]}" in text
    assert f"corpus: fingerprint {record.data.fingerprint} then, x now" in text
    assert f"environment: torch {record.environment['torch']} then, 9.9 now" in text
    assert "exp=toy_postln_nowarm seed=1 lr=0.0006666666666666666 " in text
    assert "optimizer.max_relative_update=0.0066" in text


@pytest.mark.parametrize(("words", "said"), [
    (["lr=1"], "lr: fixed by the record"),
    (["train.max_epoch=4"], "can only cut the run short, to 3 at most"),
    (["train.max_epoch=null"], "or training never ends"),
    (["train.max_epoch=x"], "train.max_epoch: input should be a valid integer"),
    (["paths=3"], "paths: input should be a valid dictionary"),
    (["paths.runs="], "paths.runs: is empty; name a folder"),
])  # fmt: skip
def test_a_record_is_run_with_its_own_settings(words: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        again(run_of(OLD).record, words)


def test_a_run_that_is_cut_short_decodes_every_epoch_that_is_left() -> None:
    record = run_of(OLD).record
    some = with_fields(record, settings=record.settings | {"eval": record.settings["eval"] | {"epochs": [3]}})
    assert again(some, []).eval.epochs == (3,)
    assert again(some, ["train.max_epoch=1"]).eval.epochs is None
    with pytest.raises(UserError, match="the run ended before its first epoch did"):
        again(with_fields(record, epochs=[]), ["train.max_epoch=1"])


def test_a_fine_tuned_run_is_not_repeated_from_random_weights() -> None:
    tuned = next(run.record for run in committed.archive().kept.runs if run.record.settings.get("start"))
    with pytest.raises(UserError, match="the weights of another one; give start=RUN@EPOCH"):
        again(tuned, ["start=null"])


def test_the_code_of_a_record_is_executed_only_if_the_user_has_it(tmp_path: Path) -> None:
    record = run_of(OLD).record
    with pytest.raises(UserError, match="no scheme of its own"):
        again(record, [f"norm.file={__file__}"])
    own = {"norm": "my.Mine", "norm_file": {"name": "my.Mine", "text": "code"}}
    record = with_fields(record, settings=record.settings | own)
    (tmp_path / "same.py").write_text("code")
    (tmp_path / "other.py").write_text("other code")
    with pytest.raises(UserError, match="whose code would be executed; read it"):
        again(record, [])
    with pytest.raises(UserError, match="is not the code of"):
        again(record, [f"norm.file={tmp_path / 'other.py'}"])
    own_norm = again(record, [f"norm.file={tmp_path / 'same.py'}"]).norm_file
    assert own_norm and own_norm.text == "code"


def test_an_unknown_id_is_one_line_with_the_nearest(refused: Callable[[str], str]) -> None:
    assert f"nearest: {OLD}" in refused(f"reproduce {OLD[:-1]}x")
