"""The local pool: everything runs, failures are tried again, and no run is started that another sweep runs."""

import signal
import subprocess
import threading
import time
from typing import Any

import pytest
from rich.console import Console

from ln_repro.errors import Interrupted
from ln_repro.records.run_dir import write_json
from ln_repro.sweep import queued
from ln_repro.sweep.devices import Device
from ln_repro.sweep.local import Pool, Running, Waiting
from ln_repro.sweep.plan import PlannedRun
from ln_repro.sweep.progress import Progress
from ln_repro.sweep.queued import ALL, Cancellations
from ln_repro.system.directory_lock import Holder, acquire, machine
from tests.examples import planned, record
from tests.sweep.stand_ins import tries
from tests.waiting import HANGS_SECONDS, until


@pytest.fixture
def make(stand_ins, tmp_path, monkeypatch):
    """Return a function that makes a pool whose runs are stand-ins; it returns the pool, its plan and its messages."""

    def make(*kinds: str, slots: int = 2, retries: int = 2, stack: int = 1) -> tuple[Pool, list[PlannedRun], list[str]]:
        plan = stand_ins.planned(*kinds, alike=stack > 1)
        messages: list[str] = []
        progress = Progress(plan, console=Console(file=(tmp_path / "screen").open("w")))
        monkeypatch.setattr(progress, "say", messages.append)
        device = Device("cpu", slots, stack=stack)
        return Pool([device], retries, tmp_path / "sweep", Cancellations(tmp_path), progress), plan, messages

    return make


def test_everything_runs_and_failures_are_tried_again(make):
    pool, plan, messages = make("good", "flaky", "bad", "wrong", "diverging", "late")
    pool.run(plan)
    assert [run.state for run in plan] == ["finished", "finished", "interrupted", "interrupted", "diverged", "finished"]
    assert [tries(run) for run in plan] == [1, 3, 3, 1, 1, 1]  # invalid input and divergence are not tried again
    assert len(pool.progress.failures) == 2
    assert any("toy_bad" in line and "failed, train failed (exit 9): the reason (see" in line for line in messages)


def test_runs_that_differ_in_nothing_but_rates_are_started_as_one_and_tried_again_alone(make, stand_ins):
    pool, plan, messages = make("good", "flaky", "good", "good", "bad", "good", stack=4)
    stand_ins.warning = "the runs go on one by one: the reason"
    plan[3] = planned(plan[3].experiment.model_copy(update={"norm": "preln"}))
    pool.logs.mkdir(parents=True)
    (pool.logs / f"stack-{plan[0].name}.log").write_text("an earlier sweep | the runs go on one by one: full\n")
    pool.progress.plan = plan
    pool.run(plan)
    assert [run.state for run in plan] == [*["finished"] * 4, "interrupted", "finished"]
    assert [tries(run) for run in plan] == [1, 3, 1, 1, 3, 1]
    assert stand_ins.stacks == [4]  # the first three and the fifth; the sixth has a stack's key, but no place in it
    assert not pool.stacks
    assert [line for line in messages if "one by one" in line] == [stand_ins.warning]


def test_every_device_gets_runs(make, stand_ins):
    pool, plan, _ = make("good", "good", "good")
    pool.devices = [Device(name, 1, {"CUDA_VISIBLE_DEVICES": name}) for name in ("GPU-a", "GPU-b")]
    pool.run(plan)
    assert [run.state for run in plan] == ["finished"] * 3
    assert [variables["CUDA_VISIBLE_DEVICES"] for variables in stand_ins.environments[:2]] == ["GPU-a", "GPU-b"]


def test_with_fail_fast_no_run_is_started_after_a_failure(make, monkeypatch, tmp_path):
    pool, plan, messages = make("diverging", "bad", "good", "good", slots=1, retries=1)
    pool.fail_fast = True
    pool.run(plan)
    assert [tries(run) for run in plan] == [1, 2, 0, 0]  # divergence is no failure; a failure is tried again first
    assert "--fail-fast: queued runs not started: 2" in messages
    pool, plan, messages = make("bad", "tardy", "good", slots=2, retries=1)
    pool.fail_fast = True

    def say(line: str) -> None:
        """Let the tardy run end once another one has failed for good."""
        messages.append(line)
        if "--fail-fast" in line:
            (tmp_path / "failed").touch()

    monkeypatch.setattr(pool.progress, "say", say)
    pool.run(plan[-3:])
    assert [tries(run) for run in plan[-3:]] == [2, 1, 0]
    assert sum("--fail-fast" in line for line in messages) == 1


def test_a_run_of_another_sweep_is_started_only_if_that_sweep_ends_without_a_record(make):
    pool, plan, _ = make("good", "good", "good")
    plan[2].folder.path.mkdir(parents=True)
    write_json(plan[2].folder.path / "record.json", record())
    with acquire(plan[0].folder.path):
        thread = threading.Thread(target=pool.run, args=(plan,))
        thread.start()
        until(lambda: tries(plan[1]))
        time.sleep(0.3)
        assert thread.is_alive() and tries(plan[0]) == 0
    thread.join(HANGS_SECONDS)
    assert [tries(run) for run in plan] == [1, 1, 0]


def test_a_request_stops_a_run_that_is_running_and_one_that_waits(make, tmp_path):
    pool, plan, messages = make("saving", "slow", "slow", "good", slots=2)
    thread = threading.Thread(target=pool.run, args=(plan,))
    thread.start()
    until(lambda: tries(plan[0]) and tries(plan[1]))
    Cancellations(tmp_path).request([run.name for run in plan[:3]])
    thread.join(HANGS_SECONDS)
    assert not thread.is_alive()
    assert [run.state for run in plan] == ["interrupted", "interrupted", "planned", "finished"]
    assert [tries(run) for run in plan] == [1, 1, 0, 1]  # nor is one tried again that dies of the signal
    assert {f"{run.label}: stopped" for run in plan[:3]} <= {*messages}
    assert (pool.logs / f"{plan[0].name}.log").read_text() == "SIGTERM\n"  # once, however long it saves


def test_a_run_that_has_just_begun_when_the_sweep_is_interrupted_is_stopped(make, monkeypatch):
    pool, plan, _ = make("slow")
    start, processes = queued.start, []

    def interrupted(*arguments: Any) -> subprocess.Popen[bytes]:
        processes.append(start(*arguments))
        signal.raise_signal(signal.SIGINT)
        return processes[0]

    monkeypatch.setattr(queued, "start", interrupted)
    with pytest.raises(Interrupted):
        pool.run(plan)
    assert processes[0].poll() is not None


def test_a_run_that_does_not_end_in_time_is_killed(make, monkeypatch):
    pool, plan, _ = make("deaf")
    monkeypatch.setattr(queued, "STOP_SECONDS", 0.5)
    deaf = subprocess.Popen(["sh", "-c", "trap '' TERM; echo; exec sleep 20"], stdout=subprocess.PIPE)
    assert deaf.stdout and deaf.stdout.readline() == b"\n"
    pool.running = [Running(Waiting(plan[0], plan[0].folder.path), pool.devices[0], deaf, deaf)]
    pool.stop()
    assert deaf.wait(HANGS_SECONDS) == -signal.SIGKILL


def test_requests_made_before_the_sweep_are_ignored(tmp_path):
    Cancellations(tmp_path).request(["a", ALL])
    ours = Cancellations(tmp_path)
    assert not ours.pending("a") and not ours.pending("b")
    Cancellations(tmp_path).request(["a"])
    assert ours.pending("a") and not ours.pending("b")
    Cancellations(tmp_path).request([ALL])
    assert ours.pending("b") and not Cancellations(tmp_path).pending("b")
    assert Cancellations(tmp_path, ours.begin).pending("b"), "a detached sweep ignores what the command ignored"


def test_a_run_that_always_dies_is_not_tried_for_ever_though_its_workers_hold_the_lock(make, monkeypatch):
    pool, plan, _ = make("bad", retries=1)
    started, start = list["subprocess.Popen[bytes]"](), queued.start

    def remember(*arguments: Any) -> "subprocess.Popen[bytes]":
        started.append(start(*arguments))
        return started[-1]

    def lingering(_: object) -> Holder | None:
        """Return the holder as it is just after a run has died, once: its trainer has not ended yet."""
        if not started or started[-1].poll() is None:
            return None
        return Holder("here", machine(), started.pop().pid, None, "", 0.0)

    monkeypatch.setattr(queued, "start", remember)
    monkeypatch.setattr(type(plan[0].folder), "holder", property(lingering))
    pool.run(plan)
    assert tries(plan[0]) == 2


@pytest.mark.parametrize(("error", "raised"), [(KeyboardInterrupt, Interrupted), (ValueError, ValueError)])
def test_after_ctrl_c_or_an_error_no_run_is_left_running(make, monkeypatch, error, raised):
    pool, plan, _ = make("slow", "slow", "slow")

    def fail() -> None:
        if len(pool.running) == 2:
            raise error

    monkeypatch.setattr(pool.progress, "show", fail)
    with pytest.raises(raised):
        pool.run(plan)
    assert len(pool.running) == 2 and all(running.process.poll() for running in pool.running)


def test_a_sweep_stops_when_its_minutes_have_passed(call, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    original, seconds = threading.Timer, []

    def sooner(interval: float, *arguments: Any) -> threading.Timer:
        seconds.append(interval)
        return original(0.1, *arguments)

    monkeypatch.setattr(threading, "Timer", sooner)
    monkeypatch.setattr(Pool, "run", lambda pool, plan: time.sleep(60))
    words = "grid=design --only postln_warm train.device=cpu tracker=none budget_minutes=3"
    assert call("sweep", *words.split())[0] == Interrupted.exit_code
    assert seconds == [180]
