"""The local pool: everything runs, failures are tried again, somebody else's cells are left to him."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from rich.console import Console

from ln_repro.errors import Interrupted
from ln_repro.experiment.learning_rate import LearningRate
from ln_repro.experiment.settings import Experiment
from ln_repro.records.run_dir import write_json
from ln_repro.sweep import local, queued, run_process
from ln_repro.sweep.cancellations import ALL, Cancellations
from ln_repro.sweep.devices import Device
from ln_repro.sweep.grid import GridRun
from ln_repro.sweep.local import Pool
from ln_repro.sweep.plan import PlannedRun
from ln_repro.sweep.progress import Progress
from ln_repro.system.directory_lock import Holder, acquire, machine
from tests.examples import experiment
from tests.waiting import HANGS_SECONDS, until

RUN = """
import pathlib, sys, time
folder, kind, tries = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[1] + ".tries")
with tries.open("a") as file:
    file.write("x")
folder.mkdir(parents=True, exist_ok=True)
count = len(tries.read_text())
if kind == "slow":
    time.sleep(3600)
if kind == "bad" or (kind == "flaky" and count < 3):
    print("train failed (exit 9): the reason")
    sys.exit(1)
if kind == "wrong":
    sys.exit(2)
status = "diverged" if kind == "lost" else "finished"
(folder / "record.json").write_text('{"status": "%s", "bleu": {"test": null}}' % status)
sys.exit(130 if kind == "late" else 0)
"""
"""Stands in for `ln-repro run`: directory, and what becomes of it."""


def planned(runs: Path, kind: str, seed: int = 1) -> PlannedRun:
    """Return a cell whose experiment's name says what becomes of it."""
    made: Experiment = experiment(seed=seed).model_copy(update={"exp": f"toy_{kind}"})
    made = made.model_copy(update={"paths": made.paths.model_copy(update={"runs": runs})})
    return PlannedRun(
        GridRun(f"toy_{kind}", seed), made, LearningRate(1.0, 0, "constant", 4000, None, 10, total=10), "data"
    )


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return a function that makes a pool whose runs are stand-ins, and the cells of it."""
    monkeypatch.setattr(local, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(local, "OTHER_SWEEP_SECONDS", 0.1)
    plan: list[PlannedRun] = []

    def start(file: Path, log: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        mine = next(p for p in plan if p.experiment == queued.read(file)[0])
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            command = [sys.executable, "-c", RUN, str(mine.folder.path), mine.run.exp.partition("_")[2]]
            return subprocess.Popen(command, stdout=output)

    monkeypatch.setattr(run_process, "start", start)

    def make(*kinds: str, slots: int = 2, retries: int = 2) -> tuple[Pool, list[PlannedRun], list[str]]:
        plan.extend(planned(tmp_path, kind, seed) for seed, kind in enumerate(kinds, 1))
        said: list[str] = []
        progress = Progress(plan, console=Console(file=(tmp_path / "screen").open("w")))
        monkeypatch.setattr(progress, "say", said.append)
        pool = Pool([Device("cpu", slots, [])], retries, tmp_path / "sweep", Cancellations(tmp_path), progress)
        return pool, plan, said

    return make


def tries(one: PlannedRun) -> int:
    path = one.folder.path.with_name(one.folder.path.name + ".tries")
    return len(path.read_text()) if path.exists() else 0


def test_everything_runs_and_failures_are_tried_again(pool) -> None:
    made, plan, said = pool("good", "flaky", "bad", "wrong", "lost")
    made.run(plan)
    assert [one.state for one in plan] == ["finished", "finished", "interrupted", "interrupted", "diverged"]
    assert [tries(one) for one in plan] == [1, 3, 3, 1, 1]  # wrong input and divergence are not tried again
    assert len(made.progress.failures) == 2
    assert any("toy_bad" in line and "failed, train failed (exit 9): the reason (see" in line for line in said)


def test_after_a_failure_no_further_cell_is_started_when_asked(pool) -> None:
    made, plan, said = pool("lost", "bad", "good", "good", slots=1, retries=1)
    made.fail_fast = True
    made.run(plan)
    assert [tries(one) for one in plan] == [1, 2, 0, 0]  # a divergence is no failure; a failure is tried again first
    assert "--fail-fast: 2 runs are not started" in said


def test_what_is_at_work_when_another_cell_fails_goes_on(pool) -> None:
    made, plan, _ = pool("wrong", "late", "good", slots=2)
    made.fail_fast = True
    made.run(plan)
    assert [tries(one) for one in plan] == [1, 1, 0] and plan[1].done


def test_what_is_done_is_not_run(pool) -> None:
    made, plan, _ = pool("good", "good")
    plan[0].folder.path.mkdir(parents=True)
    write_json(plan[0].folder.path / "record.json", {"status": "finished", "bleu": {"test": None}})
    made.run(plan)
    assert [tries(one) for one in plan] == [0, 1]


def test_a_cell_that_another_sweep_is_at_work_on_is_left_to_it_until_it_is_gone(pool) -> None:
    made, plan, _ = pool("good", "good")
    busy = plan[0].folder
    with acquire(busy.path):
        thread = threading.Thread(target=made.run, args=(plan,))
        thread.start()
        until(lambda: tries(plan[1]))
        time.sleep(0.3)
        assert thread.is_alive() and tries(plan[0]) == 0
    thread.join(HANGS_SECONDS)
    assert tries(plan[0]) == 1  # its sweep died without a record: we take over


def test_never_more_at_a_time_than_there_is_room_for(pool) -> None:
    made, plan, _ = pool(*["good"] * 6, slots=1)
    most = 0
    collect = made._collect

    def count() -> None:
        nonlocal most
        most = max(most, len(made.running))
        collect()

    made._collect = count
    made.run(plan)
    assert most == 1 and all(one.done for one in plan)


def test_a_request_stops_a_cell_at_work_and_one_that_waits(pool) -> None:
    made, plan, said = pool("slow", "slow", "good", slots=1)
    thread = threading.Thread(target=made.run, args=(plan,))
    thread.start()
    until(lambda: tries(plan[0]))
    made.retries = 0  # the stand-in dies of the signal, where a run saves and exits with 130
    Cancellations(made.cancellations.folder.parents[1]).request([plan[0].name, plan[1].name])
    thread.join(HANGS_SECONDS)
    assert not thread.is_alive()
    assert [one.state for one in plan] == ["interrupted", "planned", "finished"]
    assert f"{plan[1].name}: stopped" in said


def test_a_request_to_stop_everything_stops_what_waits_too(pool) -> None:
    made, plan, _ = pool("slow", "good", "good", slots=1, retries=0)
    thread = threading.Thread(target=made.run, args=(plan,))
    thread.start()
    until(lambda: tries(plan[0]))
    Cancellations(made.cancellations.folder.parents[1]).request([ALL])
    thread.join(HANGS_SECONDS)
    assert [tries(one) for one in plan] == [1, 0, 0]


def test_requests_of_before_the_sweep_do_not_count(tmp_path: Path) -> None:
    Cancellations(tmp_path).request(["a", ALL])
    ours = Cancellations(tmp_path)
    assert not ours.pending("a") and not ours.pending("b")
    made = (ours.folder / "a").stat().st_mtime_ns
    until(lambda: Cancellations(tmp_path).request(["a"]) or (ours.folder / "a").stat().st_mtime_ns != made)
    assert ours.pending("a") and not ours.pending("b")


def test_a_run_that_always_dies_is_given_up_though_its_workers_linger(pool, monkeypatch) -> None:
    made, plan, _ = pool("bad", retries=1)
    started: list[int] = []
    start = run_process.start

    def noted(*arguments: object) -> subprocess.Popen[bytes]:
        process = start(*arguments)
        started.append(process.pid)
        return process

    def lingering(_: object) -> Holder | None:
        """Return what a dead runner, whose trainer still holds the lock, looks like just after its end."""
        ended = made.running and made.running[0].process.poll() is not None
        return Holder("here", machine(), started[-1], None, "") if ended else None

    monkeypatch.setattr(run_process, "start", noted)
    monkeypatch.setattr(type(plan[0].folder), "holder", property(lingering))
    made.run(plan)
    assert tries(plan[0]) == 2


def test_a_record_counts_however_its_run_ended(pool) -> None:
    made, plan, _ = pool("late")
    made.run(plan)
    assert plan[0].done and not made.progress.failures


def test_whatever_goes_wrong_no_run_is_left_alone(pool, monkeypatch) -> None:
    made, plan, _ = pool("slow", "slow")
    monkeypatch.setattr(made.progress, "show", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        made.run(plan)
    assert made.running and all(running.process.poll() is not None for running in made.running)


def test_ctrl_c_stops_the_runs(pool, monkeypatch) -> None:
    made, plan, _ = pool("slow", "slow", "slow")

    def interrupt() -> None:
        if len(made.running) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(made.progress, "show", interrupt)
    with pytest.raises(Interrupted):
        made.run(plan)
    assert all(running.process.poll() for running in made.running)  # none has slept to its end
