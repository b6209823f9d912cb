"""Runs that are trained as one, by a sweep or by a job: their records are those of separate runs."""

import os
import subprocess
import sys
import threading

import pytest

from ln_repro.records.archive import read_kept
from ln_repro.records.record import Record
from ln_repro.sweep import slurm
from tests.e2e.conftest import Command
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


def test_a_stacked_sweep_gives_the_records_of_separate_runs_though_one_is_cancelled_on_the_way(command, separate):
    stacked = command("stacked")
    words = ("sweep", *GRID, *stacked.settings)
    sweep = subprocess.Popen([sys.executable, "-m", "ln_repro.cli", *words, "stack=7"], env=stacked.environment)
    until(lambda: len(stacked.reached(30)) == ROWS)
    cancelled = stacked.reached(30)[0]
    assert stacked.call_here("cancel", cancelled)[0] == 0
    assert sweep.wait(HANGS_SECONDS) == 1
    assert len([*stacked.runs.glob("*/record.json")]) == ROWS - 1
    assert not (stacked.runs / cancelled / "record.json").exists()
    assert stacked.call(*words, "stack=7")[0] == 0  # resumes it, alone
    assert_equal(records_of(stacked), separate)


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
    assert not run.workers() and not [*run.runs.glob("*/record.json")] and all(file.exists() for file in job.files)
    requeued()
    assert not any(file.exists() for file in job.files)
    assert {len([*folder.iterdir()]) for folder in run.runs.glob("toy_*/sessions")} == {2}
    assert_equal(records_of(run), separate)
