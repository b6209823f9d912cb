"""Killed, stopped and started twice, alone, in a sweep and with a tracker: the result is that of an undisturbed run."""

import json
import signal

import psutil
import pytest

from ln_repro.records.archive import read_kept
from tests.e2e.conftest import outcome
from tests.tracking.wandb_server import Server
from tests.waiting import HANGS_SECONDS, until

CANARY = "0123456789abcdef0123456789abcdef01234567"


def test_kill_9_changes_nothing(command, expected):
    run = command()
    run.kill_at(3)
    run.complete()
    assert outcome(run.folder) == expected


def test_when_asked_to_stop_a_run_saves_and_the_same_command_resumes_it(command, expected, tmp_path):
    run = command()
    process = run.start()
    run.wait_for_update(40)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=HANGS_SECONDS)
    assert process.returncode == 130 and "Traceback" not in error
    run.wait_until_alone()
    collected_as_stopped(run, tmp_path / "kept")
    events = run.folder / "events.jsonl"
    first, *others = events.read_text().splitlines()
    edited = {"version": "0", "git": "0" * 40, "dirty": True}
    events.write_text("\n".join([json.dumps({**json.loads(first), "code": edited}), *others, ""]))
    error = run.complete()
    assert "resuming after update" in error
    assert outcome(run.folder) == expected
    code = run.record["code"]
    assert code["dirty"] and code["sessions"][0] == edited and code["sessions"][1]["git"] == code["git"]


def collected_as_stopped(run, kept):
    """Collect a run that has not ended, which needs a flag; its record is valid."""
    where = ("--records", str(kept))
    assert "not a finished run" in run.call_here("collect", str(run.folder), *where)[2]
    assert "--stopped needs the runs" in run.call_here("collect", "--stopped", *where)[2]
    status, _, error = run.call_here("collect", "--stopped", str(run.folder), *where)
    assert status == 0, error
    (record,) = read_kept(kept / "stopped").records
    assert record.status == "stopped" and record.updates == max(event["update"] for event in run.events())
    assert run.call_here("verify", "--records", str(kept / "stopped"))[0] == 0
    settings = run.folder / "experiment.json"
    text = settings.read_text()
    settings.write_text(text.replace(record.id, "0" * 10))  # as if the run had had other text
    assert "its corpus has changed since" in run.call_here("collect", "--stopped", str(run.folder), *where)[2]
    settings.write_text(text)
    assert not (run.folder / "record.json").exists()


@pytest.mark.slow
def test_the_trainer_ends_without_waiting_for_the_decoder(command):
    run = command("runs", "train.max_epoch=40")
    process = run.start()
    until(lambda: {line.split("worker ")[1].split()[0] for line in run.workers().values()} == {"train", "decode"})
    run.signal_workers(signal.SIGSTOP, "worker decode")
    process.send_signal(signal.SIGINT)
    until(lambda: len(run.workers()) == 1)
    run.signal_workers(signal.SIGCONT, "worker decode")
    process.communicate(timeout=HANGS_SECONDS)
    assert process.returncode == 130


@pytest.mark.slow
def test_neither_signals_meant_for_the_job_nor_a_second_command_disturb_a_run(command, expected):
    run = command()
    first = run.start()
    run.wait_for_update(1)
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
        run.signal_workers(number)
    status, _, error = run.finish()
    first.communicate(timeout=HANGS_SECONDS)
    assert first.returncode == 0
    assert outcome(run.folder) == expected
    assert status == 0 or "in use by process" in error  # either is right
    assert [event["state"] for event in run.events("status")] == ["started", "trained"]


@pytest.mark.slow
def test_a_detached_sweep_is_shown_cancelled_and_resumed(command):
    run = command("runs", "train.max_epoch=4", "eval.beam=1")
    words = ("grid=design", "--only", "p*_warm_sgd", *run.settings)
    status, out, error = run.call("sweep", *words, "jobs=1", "--detach")
    assert status == 0 and out.strip() == str(run.runs) and "ln-repro cancel --all" in error
    run.wait_for_update(30)
    run.signal_workers(signal.SIGSTOP)
    assert sorted(run.states(*words).values()) == ["planned", "running"]
    status, out, _ = run.call_here("cancel", *words)
    run.signal_workers(signal.SIGCONT)
    assert status == 0 and "stopping" in out and "the same command resumes them" in out
    until(lambda: "running" not in run.states(*words).values() and not run.workers())
    assert sorted(run.states(*words).values()) == ["interrupted", "planned"]
    log = next((run.runs / "sweep").glob("sweep-*.log"))
    until(lambda: "2 runs stopped; the same command resumes" in log.read_text())
    status, _, error = run.call("sweep", *words)
    assert status == 0, error
    assert [*run.states(*words).values()] == ["finished"] * 2
    resumed = next(path for path in run.runs.glob("*/sessions/2.json")).parent.parent
    assert "resuming after update" in (run.runs / "sweep" / f"{resumed.name}.log").read_text()
    records = [json.loads(path.read_text()) for path in run.runs.glob("*/record.json")]
    arms = {(record["axes"]["norm"], record["axes"]["optimizer"]) for record in records}
    assert arms == {("preln", "sgd"), ("postln", "sgd")}
    assert "2 finished, 2 without the requested probes" in run.call_here("sweep", *words, "probe=gradients")[2]


@pytest.mark.slow
def test_killed_twice_it_arrives_as_one_on_the_server(command, tmp_path):
    run = command()
    run.arguments = [word for word in run.arguments if word != "tracker=none"] + ["tracker.mode=online"]
    home = {"HOME": str(tmp_path), "NETRC": str(tmp_path / "netrc"), "WANDB_CONFIG_DIR": str(tmp_path / "config")}
    with Server() as server:
        run.environment |= {**home, "WANDB_BASE_URL": server.url, "WANDB_API_KEY": CANARY}
        begun = run.start()
        (trainer,) = until(run.workers)
        assert not [name for name in psutil.Process(trainer).environ() if name.startswith("WANDB_")]
        begun.kill()
        begun.communicate(timeout=HANGS_SECONDS)
        run.wait_until_alone()
        for update, victim in ((30, "command"), (90, "trainer")):
            run.kill_at(update, victim)
        run.complete()
        for _ in range(2):
            status, out, error = run.call("sync")
            assert status == 0, error
    assert "already uploaded" in out
    (arrived,) = server.runs.values()
    losses = [row["update"] for _, row in sorted(arrived.history.items()) if "train/loss" in row]
    assert losses == sorted(set(losses)) and set(range(5, 151, 5)) <= set(losses)
    assert len(arrived.column("valid/loss")) == 4
    assert not [path for path in run.runs.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]
