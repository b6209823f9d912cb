"""Killed, stopped and started twice: the record is that of a run nobody touched."""

import json
import os
import signal

import pytest

from tests.e2e import outcomes
from tests.waiting import HANGS_SECONDS, until


def outcome(run):
    return outcomes.outcome(run.folder)


def jobs(run):
    """Return what the workers of a run do."""
    return {args.split("ln_repro.engine.worker ")[1].split()[0] for args in run.workers().values()}


@pytest.mark.parametrize(
    ("victim", "update"),
    [
        ("both", 3),
        ("command", 40),
        pytest.param("trainer", 75, marks=pytest.mark.slow),
        pytest.param("both", 130, marks=pytest.mark.slow),
    ],
)
def test_kill_9_changes_nothing(command, expected, victim, update):
    run = command()
    run.kill_at(update, victim)
    status, _, error = run.finish()
    assert status == 0, error
    assert outcome(run) == expected


def test_ctrl_c_saves_and_the_same_command_goes_on(command, expected):
    run = command()
    process = run.start()
    run.wait_for_update(40)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=HANGS_SECONDS)
    assert process.returncode == 130
    assert "Traceback" not in error
    run.wait_until_alone()
    status, _, error = run.finish()
    assert status == 0, error
    assert "resuming after update" in error
    assert outcome(run) == expected


def test_the_trainer_need_not_wait_for_a_decoder_that_does_not_end(command):
    run = command("runs", "train.max_epoch=40")
    process = run.start()
    until(lambda: jobs(run) == {"train", "decode"})
    run.signal_workers(signal.SIGSTOP, "worker decode")
    process.send_signal(signal.SIGINT)
    until(lambda: jobs(run) == {"decode"})
    run.signal_workers(signal.SIGCONT, "worker decode")
    process.communicate(timeout=HANGS_SECONDS)
    assert process.returncode == 130


@pytest.mark.slow
def test_sigterm_is_as_good_as_ctrl_c(command, expected):
    run = command()
    process = run.start()
    run.wait_for_update(40)
    process.terminate()
    _, error = process.communicate(timeout=HANGS_SECONDS)
    assert process.returncode == 130, error
    assert run.finish()[0] == 0
    assert outcome(run) == expected


def test_signals_meant_for_the_job_do_not_kill_the_trainer(command, expected):
    run = command()
    process = run.start()
    run.wait_for_update(20)
    workers = run.workers()
    assert workers
    for pid in workers:
        for name in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
            os.kill(pid, name)
    process.communicate(timeout=HANGS_SECONDS)
    assert process.returncode == 0
    assert outcome(run) == expected


def test_a_damaged_checkpoint_costs_one_checkpoint(command, expected):
    run = command()
    run.kill_at(60, "command")
    states = sorted((run.folder / "checkpoints").glob("update*.pt"), key=lambda path: path.stat().st_mtime)
    states[-1].write_bytes(states[-1].read_bytes()[:1000])
    status, _, error = run.finish()
    assert status == 0, error
    assert "renamed to" in error
    assert outcome(run) == expected


def test_two_commands_never_write_into_one_directory(command, expected):
    run = command()
    first = run.start()
    run.wait_for_update(1)
    status, _, error = run.finish()
    first.communicate(timeout=HANGS_SECONDS)
    assert first.returncode == 0
    assert outcome(run) == expected
    assert status == 0 or "in use by process" in error  # it waited for the first to finish, or said why not
    events = [json.loads(line) for line in (run.folder / "events.jsonl").read_text().splitlines()]
    assert [event["state"] for event in events if event["kind"] == "status"] == ["started", "trained"]
