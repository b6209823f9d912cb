"""The mirror: everything arrives once and in order, and nothing that fails there reaches the run."""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ln_repro import tracking
from ln_repro.commands import sync as command
from ln_repro.errors import LnReproError
from ln_repro.experiment.settings import Tracker
from ln_repro.records.run_dir import SAMPLES, RunFolder, write_json
from ln_repro.system.signals import record_stop_signals
from ln_repro.tracking import SENT, Mirror
from tests.examples import experiment, record
from tests.tracking.wandb_server import Server
from tests.waiting import HANGS_SECONDS, processes, until

ID = "0123456789"
CANARY = "c0ffee" * 6 + "cafe"


@pytest.fixture(autouse=True)
def no_account_and_time_enough(monkeypatch, tmp_path):
    """Hide whatever account and settings this machine has for wandb, and give it all the time it needs."""
    monkeypatch.setattr(tracking, "CLOSE_SECONDS", HANGS_SECONDS)
    monkeypatch.setitem(tracking.SETTINGS, "INIT_TIMEOUT", str(HANGS_SECONDS))
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NETRC", str(tmp_path / "home" / "netrc"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "home" / "config"))
    monkeypatch.setenv("PYTHONPATH", str(Path(tracking.__file__).parents[1]))


@pytest.fixture
def server(monkeypatch):
    """Point wandb at a stand-in for its server, with a key in the environment."""
    with Server() as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        monkeypatch.setenv("WANDB_API_KEY", CANARY)
        yield server


@pytest.fixture
def run_dir(tmp_path):
    """Return a run directory with a name that needs care."""
    path = tmp_path / "it's a run"
    path.mkdir()
    settings = experiment(paths__runs="/a/private/folder", data__source="/a/private/folder", tracker__name="wandb")
    write_json(path / "experiment.json", {**settings.model_dump(mode="json"), "id": ID})
    return path


def train_event(update: int, **more: Any) -> dict[str, Any]:
    return {"kind": "train", "time": "2026-01-02T03:04:05+00:00", "update": update, "epoch": 1,
            "loss": 10 / update, "lr": 1e-3, "tokens_per_s": 100.0, **more}  # fmt: skip


@contextmanager
def mirrored(
    run_dir: Path, mode: str = "auto", reason: str | None = None, seconds: float = HANGS_SECONDS, name: str = "wandb"
) -> Iterator[Mirror]:
    """Mirror a run as its command does; assert that there is one warning, which has the reason (None: no warning)."""
    warnings: list[str] = []
    with Mirror(RunFolder(run_dir), Tracker(name=name, mode=mode), warnings.append, seconds) as mirror:
        yield mirror
    assert len(warnings) == (reason is not None)
    assert all(str(reason) in warning and CANARY not in warning for warning in warnings)


def sync(run_dir: Path) -> str:
    """Send a run as `ln-repro sync` does."""
    return command.sync(RunFolder(run_dir))


def write(run_dir: Path, *events: dict[str, Any]) -> None:
    with (run_dir / "events.jsonl").open("a") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)


def finish(run_dir: Path, **changes: Any) -> None:
    """Write what a run leaves at its end."""
    write_json(run_dir / "record.json", record(id=ID, **changes))
    (run_dir / SAMPLES).write_text(json.dumps([["ein Haus", "a house", "a mouse"], ["ein Baum", "a tree", "a tree"]]))


def services(run_dir: Path) -> list[int]:
    """Return the process ids of wandb's services for this run that are alive."""
    return [*processes(run_dir, "wandb-core")]


def test_a_run_arrives_once_in_order_with_its_end_whatever_signals_come(server, run_dir, capfd):
    before = {**os.environ}
    with mirrored(run_dir) as mirror:
        write(run_dir, *(train_event(update, gnorm=float("inf")) for update in range(1, 21)))
        until(lambda: server.runs)
        (service,) = services(run_dir)
        assert os.getpgid(service) != os.getpgid(0)  # Ctrl-C at a terminal
        for number in (signal.SIGUSR1, signal.SIGUSR2):  # a batch system's warning to all processes of a job
            os.kill(service, number)
        write(run_dir, *(train_event(update) for update in range(21, 41)))
        at = {"time": "2026-01-02T03:04:05Z", "update": 40, "epoch": 1}
        bleu = {"kind": "bleu", "split": "test", "flavour": "tokenised", "score": 1.5, "signature": "s", **at}
        probe = {"kind": "probe", "name": "gradients", "values": {"decoder.5": 0.5, "norms": [1, 2]}, **at}
        write(run_dir, bleu, probe)
        mirror.check()
        finish(run_dir)
    (run,) = server.runs.values()
    assert capfd.readouterr() == ("", "") and services(run_dir) == [] and os.environ == before
    assert run.column("update") == [*range(1, 41), 40, 40]
    assert run.column("train/loss") == [10 / update for update in range(1, 41)]
    assert run.history[0]["_timestamp"] == 1767323045.0
    assert run.column("bleu/test_tokenised") + run.column("probe/gradients/norms/1") == [1.5, 2]
    assert run.info["groupName"] == "toy_postln_warm" and run.info["displayName"] == "toy_postln_warm-s1"
    assert "warm" in run.info["tags"] and run.info["project"] == "ln-repro"
    assert run.config["schedule"]["value"]["warmup_updates"] == 400 and "paths" not in run.config
    star = next(metric for metric in run.config["_wandb"]["value"]["m"] if metric.get("2") == "*")
    assert star["5"] == 1  # the step metric is the first one defined: `update`
    assert run.summary["status"] == "finished" and run.summary["bleu/test"] == 41.512
    assert run.summary["samples"]["nrows"] == 2
    assert (run.finished, run.exit_code) == (1, 0)
    texts = [path.read_bytes() for path in (run_dir / "wandb").rglob("*") if path.is_file()]
    texts.append(json.dumps([run.config, run.info]).encode())
    assert len(texts) > 1 and not [text for text in texts if CANARY.encode() in text or b"/a/private" in text]
    assert sync(run_dir) == "42 events, already uploaded" and run.finished == 1


def test_an_offline_run_is_kept_whole_and_synced_once(server, run_dir):
    with pytest.raises(KeyboardInterrupt), mirrored(run_dir, "offline"):
        write(run_dir, *map(train_event, range(1, 6)))
        raise KeyboardInterrupt
    with mirrored(run_dir, "offline"):
        write(run_dir, *map(train_event, range(6, 11)))
        finish(run_dir)
    assert len([*(run_dir / "wandb").glob("offline-run-*")]) == 1 and server.runs == {}
    assert sync(run_dir) == "10 events, uploaded"
    assert next(iter(server.runs.values())).column("update") == list(range(1, 11))
    before = server.requests
    assert sync(run_dir) == "10 events, already uploaded" and server.requests == before
    (run_dir / SENT).unlink()
    assert sync(run_dir) == "10 events, uploaded"
    assert next(iter(server.runs.values())).column("update") == list(range(1, 11))


def test_a_run_without_a_tracker_is_synced_before_and_after_its_end_to_a_page_of_its_directory(server, run_dir):
    write(run_dir, train_event(1), train_event(2, loss=None))
    assert sync(run_dir) == "2 events, uploaded"
    assert [run.exit_code for run in server.runs.values()] == [1]
    divergence = {"update": 3, "epoch": 1, "rule": "not_finite", "reason": "no number", "last_finite_loss": 9.5}
    finish(run_dir, status="diverged", divergence=divergence, bleu={"test": None, "test_tokenised": None})
    assert sync(run_dir) == "2 events, uploaded"
    ((name, run),) = server.runs.items()
    assert (name.startswith(f"{ID}-"), run.exit_code, run.column("update")) == (True, 0, [1, 2])
    assert run.summary["status"] == "diverged" and run.summary["divergence/last_finite_loss"] == 9.5
    shutil.rmtree(run_dir / "wandb")  # as when the same experiment is run in a new directory
    assert sync(run_dir) == "2 events, uploaded" and len(server.runs) == 2


@pytest.mark.parametrize(("name", "setting", "variable", "expected"), [
    ("wandb", "auto", None, "online"), ("wandb", "auto", "dryrun", "offline"), ("wandb", "auto", "disabled", None),
    ("wandb", "online", "offline", "online"), ("wandb", "disabled", "online", None), ("none", "online", "online", None),
])  # fmt: skip
def test_wandb_mode_decides_what_settings_leave_open(server, run_dir, monkeypatch, name, setting, variable, expected):
    if variable:
        monkeypatch.setenv("WANDB_MODE", variable)
    with mirrored(run_dir, setting, name=name):
        write(run_dir, train_event(1))
    assert len(server.runs) == (expected == "online")
    assert bool([*run_dir.glob("wandb/offline-run-*")]) == (expected == "offline")
    assert (run_dir / "wandb").exists() == bool(expected)


@pytest.mark.slow
def test_a_click_in_wandb_does_not_stop_a_run(server, run_dir):
    server.stop_requested = True
    with record_stop_signals() as stop, mirrored(run_dir):
        write(run_dir, train_event(1))
        time.sleep(20)  # wandb asks every 15 seconds
    assert stop == []


@pytest.mark.parametrize(
    ("tracker", "mode", "sent"),
    [("wandb", "auto", ["a-0123456789"]), ("none", "auto", []), ("wandb", "disabled", [])],
)
def test_all_runs_are_sent_but_those_without_a_tracker(tracker, mode, sent, call, tmp_path, monkeypatch):
    folder = tmp_path / "runs" / "a-0123456789"
    folder.mkdir(parents=True)
    settings = experiment(tracker__name=tracker, tracker__mode=mode)
    write_json(folder / "experiment.json", settings.model_dump(mode="json"))
    monkeypatch.setenv("LN_REPRO_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr(command, "sync", lambda folder: "sent")
    code, out, error = call("sync")
    assert code == 0 and [line.rpartition("/")[2] for line in out.splitlines()] == [f"{name}: sent" for name in sent]
    assert error == ("" if sent else "1 run without a tracker left out; name a run to send it\n")


def test_only_one_process_sends_a_run(server, run_dir):
    (run_dir / SENT).parent.mkdir()
    with (run_dir / SENT).open("a") as sent:
        fcntl.flock(sent, fcntl.LOCK_EX)
        with pytest.raises(LnReproError, match="another process is sending it"):
            sync(run_dir)
    assert sync(run_dir) == "0 events, uploaded"


def test_under_an_agent_of_wandb_a_run_has_its_own_page(server, run_dir, monkeypatch):
    monkeypatch.setenv("WANDB_RUN_ID", "theagents")
    monkeypatch.setenv("WANDB_SWEEP_ID", "abcd1234")
    with mirrored(run_dir, "online"):
        write(run_dir, train_event(1))
    assert [name.partition("-")[0] for name in server.runs] == [ID]


def test_without_a_key_auto_stays_offline_and_online_is_one_warning(run_dir):
    write(run_dir, train_event(1))
    with mirrored(run_dir):
        pass
    assert len(list((run_dir / "wandb").glob("offline-run-*"))) == 1
    with mirrored(run_dir, "online", "API key"):
        pass
    with pytest.raises(LnReproError, match="API key"):
        sync(run_dir)
    assert len(list((run_dir / "wandb").glob("offline-run-*"))) == 1, "the copy is kept until the events have arrived"


def test_a_wandb_service_that_dies_is_one_warning(server, run_dir):
    with mirrored(run_dir, reason="") as mirror:
        write(run_dir, train_event(1))
        until(lambda: server.runs)
        (service,) = services(run_dir)
        os.kill(service, signal.SIGKILL)
        write(run_dir, train_event(2))
        mirror.check()
        finish(run_dir)


def test_without_wandb_there_is_one_warning(run_dir, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with mirrored(run_dir, "online", "ModuleNotFoundError"):
        write(run_dir, train_event(1))


ENDS = """\
import sys, time
from pathlib import Path
from ln_repro.experiment.settings import Tracker
from ln_repro.records.run_dir import RunFolder
from ln_repro.tracking import Mirror

with Mirror(RunFolder(Path(sys.argv[1])), Tracker(name="wandb", mode="online"), print, float(sys.argv[2])):
    while not [*Path(sys.argv[1]).glob("wandb/run-*")]:
        time.sleep(0.01)
"""


@pytest.mark.parametrize("how", ["all is sent", "hangs", "refuses", "dies"])
def test_whatever_the_server_does_the_process_ends_in_time_and_prints_at_most_one_warning(how, run_dir, monkeypatch):
    """wandb's handler at the end of a process would wait for its service, and its threads print tracebacks."""
    monkeypatch.setenv("WANDB_API_KEY", CANARY)
    write(run_dir, *map(train_event, range(1, 30)))
    with Server() as server, socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}" if how == "hangs" else server.url
        monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9" if how == "refuses" else url)
        seconds = str(HANGS_SECONDS if how == "all is sent" else 2)
        command = [sys.executable, "-c", ENDS, str(run_dir), seconds]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if how == "dies":
            until(lambda: server.runs)
            server.stop()
        out, error = process.communicate(timeout=HANGS_SECONDS)  # also waits for processes with these pipes
    assert (process.returncode, error) == (0, "") and out.count("\n") == (how != "all is sent")
    assert "not everything was sent within 2 s" in out or how != "hangs"
    assert services(run_dir) == []
