"""Runs that are trained as one, by a sweep or by a job: their records and verdicts are those of separate runs."""

import json
import os
import subprocess
import sys
import threading
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ln_repro.errors import Interrupted
from ln_repro.experiment.compose import registered_experiment
from ln_repro.records.archive import read_kept
from ln_repro.records.record import Record
from ln_repro.sweep import slurm
from tests.e2e.conftest import Command
from tests.examples import store
from tests.waiting import HANGS_SECONDS, until

GRID = ("grid=rates", "arms=preln_warm,preln_nowarm_anchored", "rates=1e-3,5e-3")
ROWS = 4
pytestmark = pytest.mark.slow


def records_of(run) -> dict[str, Record]:
    """Archive the records of all runs of a sweep; return them by id."""
    kept = run.runs.parent / f"records of {run.runs.name}"
    assert run.call_here("collect", "--records", str(kept))[0] == 0
    return {record.id: record for record in read_kept(kept).records}


@pytest.fixture(scope="module")
def separate(sentences, tmp_path_factory):
    """Return the records of runs that were trained one by one."""
    runs = tmp_path_factory.mktemp("one by one") / "separate"
    run = Command(sentences, tmp_path_factory.getbasetemp() / "prepared data", runs, [])
    assert run.call("sweep", *GRID, *run.settings)[0] == 0
    return records_of(run)


def assert_equal(records: dict[str, Record], separate: dict[str, Record]) -> None:
    """Compare every number that does not depend on time, up to the order of summation."""
    assert records.keys() == separate.keys() and len(records) == ROWS
    for id, row in records.items():
        alone = separate[id]
        assert row.environment["stacked"] == ROWS and "stacked" not in alone.environment
        assert row.status == alone.status == "finished"
        assert (row.updates, row.target_tokens) == (alone.updates, alone.target_tokens)
        for name in ("valid_loss", "valid_nll_loss"):
            losses = [[getattr(epoch, name) for epoch in its.epochs] for its in (row, alone)]
            assert losses[0] == pytest.approx(losses[1], rel=1e-3)  # rounding grows over the epochs
        scores = [[epoch.test_bleu for epoch in its.epochs] for its in (row, alone)]
        assert scores[0] == pytest.approx(scores[1], abs=1)  # hypotheses may differ where two score the same


ARMS = [f"postln_{ramp}{rate}" for rate in ("", "_high") for ramp in ("nowarm", "warm_short", "warm")]
WORSE = {"postln_warm", "postln_nowarm_high", "postln_warm_short_high"}


def verdict(run, records: dict[str, Record], folder: Path) -> dict[str, Any]:
    """Judge claim MT-2, on the length of the ramp, as if the rows were seeds of its arms."""
    rows = sorted(records.values(), key=lambda record: record.epochs[-1].valid_nll_loss)
    for number, (arm, seed) in enumerate(product(ARMS, range(1, 6))):
        row, experiment = rows[seed % 2 + 2 * (arm in WORSE)], registered_experiment(f"toy_{arm}")
        assert experiment
        experiment = experiment.model_copy(update={"seed": seed, "precision": "fp32"})
        changes = {"id": f"{number:010}", "exp": experiment.exp, "axes": experiment.axes,
                   "settings": experiment.settings(),
                   "data": {**row.data.model_dump(), "name": "toy", "published": True}}  # fmt: skip
        store(folder, row.plain() | changes)
    (claim,) = json.loads(run.call_here("claims", "MT-2", "--json", "--records", str(folder))[1])
    (toy,) = (judged for judged in claim["other_corpora"] if judged["data"] == "toy")
    return toy


def test_a_stacked_sweep_gives_the_records_of_separate_runs_though_one_is_cancelled_on_the_way(
    command, separate, tmp_path
):
    stacked = command("stacked")
    words = ("sweep", *GRID, *stacked.settings)
    sweep = subprocess.Popen([sys.executable, "-m", "ln_repro.cli", *words, "stack=7"], env=stacked.environment)
    until(lambda: len(stacked.reached(30)) == ROWS)
    cancelled = stacked.reached(30)[0]
    assert stacked.call_here("cancel", cancelled)[0] == 0
    assert sweep.wait(HANGS_SECONDS) == Interrupted.exit_code
    assert len([*stacked.runs.glob("*/record.json")]) == ROWS - 1
    assert not (stacked.runs / cancelled / "record.json").exists()
    assert stacked.call(*words, "stack=7")[0] == 0  # resumes it, alone
    records = records_of(stacked)
    assert_equal(records, separate)
    ours, expected = verdict(stacked, records, tmp_path / "a"), verdict(stacked, separate, tmp_path / "b")
    assert ours["verdict"] == expected["verdict"] == "reproduced"
    numbers = [[judged["effect"], *judged["interval"]] for judged in (ours, expected)]
    assert numbers[0] == pytest.approx(numbers[1], rel=1e-2)  # differences of losses that agree to 1e-3

    kept, where = stacked.runs.parent / "records of stacked", [word for word in stacked.settings if "/" in word]
    again = next(id for id in records if not cancelled.endswith(id))
    status, out, error = stacked.call("reproduce", again, "--records", str(kept), *where)
    assert status == 0, error
    assert f"{again}: " in out and "different" not in out


def test_a_job_of_a_stack_that_is_preempted_goes_on_where_its_runs_stopped(command, separate, monkeypatch):
    """What a job of Slurm executes is called here."""
    pytest.importorskip("submitit")
    run, jobs = command("preempted"), list[slurm.StackJob]()
    monkeypatch.setattr(slurm, "require", lambda *_, **__: None)
    monkeypatch.setattr(slurm, "submit", lambda array, *_: jobs.extend(array))
    monkeypatch.setattr(slurm, "queue", list)
    monkeypatch.setattr(slurm, "END_SECONDS", 0.0)
    words = ("sweep", *GRID, "launcher=slurm", "precision=fp32", "stack=7", "--detach", *run.settings)
    status, _, error = run.call_here(*words)
    assert status == 0, error
    (job,) = jobs
    for name in ("LN_REPRO_RUNS", "LN_REPRO_DATA"):
        monkeypatch.setitem(os.environ, name, run.environment[name])
    thread = threading.Thread(target=job)
    thread.start()
    until(lambda: len(run.reached(30)) == ROWS)
    requeued = job.checkpoint().function
    thread.join(HANGS_SECONDS)
    assert not run.workers() and not [*run.runs.glob("*/record.json")] and all(file.exists() for file in job.plan)
    requeued()
    assert not any(file.exists() for file in job.plan)
    assert {len([*folder.iterdir()]) for folder in run.runs.glob("toy_*/sessions")} == {2}
    assert_equal(records_of(run), separate)
