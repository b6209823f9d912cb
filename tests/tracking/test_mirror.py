"""The mirror: everything arrives once and in order, and nothing that goes wrong there reaches the run."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from wandb_server import Run, Server

from ln_repro.errors import LnReproError
from ln_repro.experiment.settings import Experiment, build
from ln_repro.system.directory_lock import acquire
from ln_repro.tracking import mirror as tracking
from ln_repro.tracking.follower import refuse_secrets
from tests.waiting import until

ID = "0123456789"
CANARY = "c0ffee" * 6 + "cafe"
RECORD = {
    "schema": 1, "id": ID, "status": "finished", "divergence": None, "parameters": 1234,
    "bleu": {"test": {"score": 3.5, "signature": "nrefs:1|case:lc", "epoch": 2},
             "test_tokenised": {"score": 4.5, "signature": "nrefs:1|tok:none"}},
}  # fmt: skip
SAMPLES = [("ein Haus", "a house", "a mouse"), ("ein Baum", "a tree", "a tree")]


def core_available() -> bool:
    """Return whether wandb's service binary is there and starts."""
    try:
        from wandb.util import get_core_path

        return subprocess.run([get_core_path(), "--help"], capture_output=True, timeout=30).returncode in (
            0,
            2,
        )
    except Exception:
        return False


needs_core = pytest.mark.skipif(not core_available(), reason="wandb's core binary does not run here")


@pytest.fixture(autouse=True)
def no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide whatever account and settings this machine has for wandb."""
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NETRC", str(tmp_path / "home" / "netrc"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "home" / "config"))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Point wandb at a stand-in for its server, with a key in the environment."""
    with Server() as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        monkeypatch.setenv("WANDB_API_KEY", CANARY)
        yield server


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """Return a run directory with a name that needs care."""
    path = tmp_path / "it's a run"
    path.mkdir()
    return path


def experiment(mode: str = "auto", name: str = "wandb") -> Experiment:
    """Return some experiment."""
    return build({
        "exp": "toy_postln_warm", "seed": 3, "norm": "postln", "init": "xavier", "lr": 1e-3,
        "precision": "fp32", "data": {"name": "toy", "bpe_merges": 0, "source": "/a/private/place"},
        "model": {"name": "tiny", "layers": 1, "width": 8, "ffn": 8, "heads": 2},
        "optimizer": {"name": "adam"}, "schedule": {"warmup_updates": 10, "decay": "constant"},
        "train": {"max_update": 10}, "eval": {}, "tracker": {"name": name, "mode": mode},
        "paths": {"runs": "/a/private/place", "data": "/elsewhere"},
    })  # fmt: skip


def train_event(update: int, **more: Any) -> dict[str, Any]:
    """Return an event as training writes it."""
    return {"kind": "train", "time": "2026-01-02T03:04:05+00:00", "update": update, "epoch": 1,
            "loss": 10 / update, "lr": 1e-3, "tokens_per_s": 100.0, **more}  # fmt: skip


def write(run_dir: Path, mirror: tracking.Mirror, events: list[dict[str, Any]]) -> None:
    """Do what the runner does with each event."""
    for event in events:
        with (run_dir / "events.jsonl").open("a") as file:
            file.write(json.dumps(event) + "\n")
        mirror.event(event)


def updates(run: Run) -> list[int]:
    """Return the updates that the server has, in the order of its rows."""
    values: list[int] = run.column("update")
    return values


def alive(run_dir: Path) -> list[int]:
    """Return the followers of this run, and their wandb services, that are still alive."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
            place = (entry / "environ").read_bytes()
        except OSError:
            continue
        if (b"ln_repro.tracking.follower" in command or b"wandb-core" in command) and os.fsencode(run_dir) in place:
            found.append(int(entry.name))
    return found


def start_runner(run_dir: Path) -> subprocess.Popen[bytes]:
    """Start a process that mirrors the run until it is killed."""
    code = (
        "import sys, time; from pathlib import Path; from ln_repro.tracking.mirror import open_mirror; "
        "from ln_repro.experiment.settings import Experiment; "
        "experiment = Experiment.model_validate_json(sys.argv[1]); "
        "mirror = open_mirror(experiment, sys.argv[3], Path(sys.argv[2]), print); time.sleep(3600)"
    )
    root = {"PYTHONPATH": str(Path(tracking.__file__).parents[2])}
    command = [sys.executable, "-c", code, experiment().model_dump_json(), str(run_dir), ID]
    return subprocess.Popen(command, env=os.environ | root)


# What is decided before anything is sent


def test_only_settings_leave_the_house_and_none_named_like_a_secret() -> None:
    letter = tracking._letter(experiment(), ID, "auto")
    assert "place" not in json.dumps(letter)
    assert letter["run"]["group"] == "toy_postln_warm" and letter["run"]["name"] == "toy_postln_warm-s3"
    assert {"toy", "postln", "xavier", "adam", "constant", "warm"} <= set(letter["run"]["tags"])
    refuse_secrets(letter["run"]["config"])
    with pytest.raises(ValueError, match="api_key"):
        refuse_secrets({"eval": {"api_key": "x"}})


@pytest.mark.parametrize(("setting", "variable", "expected"), [
    ("auto", None, "auto"), ("auto", "offline", "offline"), ("auto", "dryrun", "offline"),
    ("auto", "disabled", "disabled"), ("online", "offline", "online"), ("disabled", "online", "disabled"),
])  # fmt: skip
def test_wandb_mode_decides_what_the_settings_leave_open(
    setting: str, variable: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable:
        monkeypatch.setenv("WANDB_MODE", variable)
    assert tracking._mode(experiment(setting).tracker) == expected
    assert tracking._mode(experiment(setting, "none").tracker) == "disabled"


def test_no_tracker_means_no_wandb_no_process_and_no_file(run_dir: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from ln_repro.tracking.mirror import open_mirror; "
        "from ln_repro.experiment.settings import Experiment; "
        "mirror = open_mirror(Experiment.model_validate_json(sys.argv[1]), 'x', Path(sys.argv[2]), print); "
        "mirror.event({}); mirror.finish({}); mirror.close(); assert 'wandb' not in sys.modules"
    )
    text = experiment(name="none").model_dump_json()
    root = {"PYTHONPATH": str(Path(tracking.__file__).parents[2])}
    subprocess.run([sys.executable, "-c", code, text, run_dir], check=True, env=os.environ | root)
    assert list(run_dir.iterdir()) == []


# Against the stand-in


@needs_core
def test_a_run_arrives_once_in_order_with_its_end(
    server: Server, run_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    warnings: list[str] = []
    mirror = tracking.open_mirror(experiment(), ID, run_dir, warnings.append)
    events = [train_event(update, gnorm=float("inf")) for update in range(1, 41)]
    write(run_dir, mirror, events)
    mirror.finish(RECORD, SAMPLES)
    run = server.runs[ID]
    assert warnings == [] and capfd.readouterr() == ("", "")
    assert updates(run) == list(range(1, 41))
    assert run.column("train/loss") == [10 / update for update in range(1, 41)]
    assert run.history[0]["_timestamp"] == 1767323045.0
    assert run.info["groupName"] == "toy_postln_warm" and run.info["displayName"] == "toy_postln_warm-s3"
    assert run.info["jobType"] == "train" and "warm" in run.info["tags"] and run.info["project"] == "ln-repro"
    assert run.config["schedule"]["value"]["warmup_updates"] == 10 and "paths" not in run.config
    star = next(metric for metric in run.config["_wandb"]["value"]["m"] if metric.get("2") == "*")
    assert star["5"] == 1  # the step metric is the first one defined: `update`
    assert run.summary["bleu/test"] == 3.5 and run.summary["bleu/test_signature"] == "nrefs:1|case:lc"
    assert run.summary["status"] == "finished" and run.summary["bleu/test_tokenised"] == 4.5
    assert run.summary["samples"]["nrows"] == 2
    assert (run.finished, run.exit_code) == (1, 0)
    assert any(b"a mouse" in content for content in server.files.values())
    assert alive(run_dir) == []


@needs_core
def test_a_resumed_run_adds_only_what_is_new(server: Server, run_dir: Path) -> None:
    warnings: list[str] = []
    for first in (1, 11):
        mirror = tracking.open_mirror(experiment(), ID, run_dir, warnings.append)
        write(run_dir, mirror, [train_event(update) for update in range(first, first + 10)])
        mirror.close()
        assert updates(server.runs[ID]) == list(range(1, first + 10))
    assert warnings == [] and server.runs[ID].exit_code == 1
    assert len(list((run_dir / "wandb").glob("run-*"))) == 1


@needs_core
def test_a_killed_runner_leaves_nothing_broken(server: Server, run_dir: Path) -> None:
    (run_dir / "events.jsonl").write_text("".join(json.dumps(train_event(n)) + "\n" for n in range(1, 11)))
    runner = start_runner(run_dir)
    until(lambda: ID in server.runs)
    runner.kill()
    runner.wait()
    mirror = tracking.open_mirror(experiment(), ID, run_dir, pytest.fail)  # waits for the orphan to end
    write(run_dir, mirror, [train_event(11)])
    mirror.finish(RECORD)
    assert updates(server.runs[ID]) == list(range(1, 12))
    assert alive(run_dir) == []


@needs_core
def test_what_a_resumed_trainer_writes_again_arrives_once(server: Server, run_dir: Path) -> None:
    """Session 1 is killed at update 100; session 2 goes on from the checkpoint of update 60, in the same file."""
    status = {"kind": "status", "time": "2026-01-02T03:04:05+00:00", "epoch": 1, "parameters": 1234}
    first = [status | {"state": "started", "update": 0}, *map(train_event, range(20, 101, 20))]
    second = [status | {"state": "resumed", "update": 60}, *map(train_event, range(80, 141, 20))]
    (run_dir / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in first))
    runner = start_runner(run_dir)
    until(lambda: ID in server.runs)
    runner.kill()
    runner.wait()
    until(lambda: alive(run_dir) == [])
    assert updates(server.runs[ID]) == [20, 40, 60, 80, 100]
    mirror = tracking.open_mirror(experiment(), ID, run_dir, pytest.fail)
    write(run_dir, mirror, second)
    mirror.finish(RECORD)
    assert updates(server.runs[ID]) == [20, 40, 60, 80, 100, 120, 140]
    (run_dir / "wandb" / "synced.json").unlink()
    tracking.sync(experiment(), ID, run_dir, RECORD)
    assert updates(server.runs[ID]) == [20, 40, 60, 80, 100, 120, 140]


@needs_core
def test_a_run_that_diverged_before_any_bleu_is_mirrored(server: Server, run_dir: Path) -> None:
    mirror = tracking.open_mirror(experiment(), ID, run_dir, pytest.fail)
    write(run_dir, mirror, [train_event(1), train_event(2, loss=None)])
    divergence = {"update": 3, "epoch": 1, "reason": "the loss is not finite", "last_finite_loss": 9.5}
    bleu = {"test": None, "test_tokenised": None}
    mirror.finish(RECORD | {"status": "diverged", "divergence": divergence, "bleu": bleu})
    summary = server.runs[ID].summary
    assert summary["status"] == "diverged" and summary["divergence/last_finite_loss"] == 9.5


@needs_core
def test_signals_meant_for_the_runner_do_not_end_the_mirror(server: Server, run_dir: Path) -> None:
    mirror = tracking.open_mirror(experiment(), ID, run_dir, pytest.fail)
    write(run_dir, mirror, [train_event(1)])
    until(lambda: ID in server.runs)
    own_group = os.getpgid(0)
    for process in alive(run_dir):
        assert os.getpgid(process) != own_group  # Ctrl-C at a terminal, and a batch system's signal to a step
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
            os.kill(process, number)
        if b"ln_repro.tracking" in Path(f"/proc/{process}/cmdline").read_bytes():
            os.killpg(process, signal.SIGINT)
    write(run_dir, mirror, [train_event(2)])
    mirror.finish(RECORD)
    assert updates(server.runs[ID]) == [1, 2]


@needs_core
def test_an_offline_run_is_kept_whole_and_synced_once(
    server: Server, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for first in (1, 6):  # interrupted once
        mirror = tracking.open_mirror(experiment("offline"), ID, run_dir, pytest.fail)
        write(run_dir, mirror, [train_event(update) for update in range(first, first + 5)])
        mirror.close() if first == 1 else mirror.finish(RECORD, SAMPLES)
    (segment,) = (run_dir / "wandb").glob("offline-run-*")
    kept = subprocess.run(
        [sys.executable, "-m", "wandb", "leet", "inspect", "--json", segment], capture_output=True, text=True
    ).stdout
    steps = [json.loads(line)["history"]["item"] for line in kept.splitlines() if '"history"' in line]
    assert [step["update"] for step in steps] == list(range(1, 11))
    assert server.runs == {}

    assert tracking.sync(experiment("offline"), ID, run_dir, RECORD) == "10 events, mirrored now"
    assert updates(server.runs[ID]) == list(range(1, 11))
    assert server.runs[ID].summary["samples"]["nrows"] == 2
    before = server.calls.copy()
    assert tracking.sync(experiment("offline"), ID, run_dir, RECORD) == "10 events, mirrored before"
    assert server.calls == before
    (run_dir / "wandb" / "synced.json").unlink()
    tracking.sync(experiment("offline"), ID, run_dir, RECORD)
    assert updates(server.runs[ID]) == list(range(1, 11))


def put(run_dir: Path) -> None:
    """Leave a run directory as an offline run has it."""
    (run_dir / "experiment.json").write_text(json.dumps({**experiment("offline").model_dump(mode="json"), "id": ID}))


def follow(run_dir: Path) -> subprocess.Popen[str]:
    """Start `ln-repro sync --follow`."""
    command = [sys.executable, "-m", "ln_repro.cli", "sync", "--follow", str(run_dir)]
    root = {"PYTHONPATH": str(Path(tracking.__file__).parents[2])}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **root}
    )


@needs_core
def test_an_offline_run_is_followed_while_it_is_at_work(server: Server, run_dir: Path) -> None:
    put(run_dir)
    with acquire(run_dir):
        mirror = tracking.open_mirror(experiment("offline"), ID, run_dir, pytest.fail)
        write(run_dir, mirror, [train_event(1), train_event(2)])
        following = follow(run_dir)
        until(lambda: ID in server.runs and updates(server.runs[ID]) == [1, 2])
        write(run_dir, mirror, [train_event(3)])
        until(lambda: updates(server.runs[ID]) == [1, 2, 3])
        assert list((run_dir / "wandb").glob("offline-run-*"))  # the run's own copy is left alone
        write(run_dir, mirror, [train_event(4)])
        mirror.finish(RECORD, SAMPLES)
        (run_dir / "record.json").write_text(json.dumps(RECORD))
    out, _ = following.communicate(timeout=120)
    assert following.returncode == 0 and out.endswith("4 events, mirrored now\n")
    assert updates(server.runs[ID]) == [1, 2, 3, 4]
    assert server.runs[ID].exit_code == 0 and server.runs[ID].summary["samples"]["nrows"] == 2
    assert not (run_dir / "wandb" / "live").exists()


@needs_core
def test_a_run_that_sends_everything_itself_is_not_followed(server: Server, run_dir: Path) -> None:
    put(run_dir)
    with acquire(run_dir):
        mirror = tracking.open_mirror(experiment("online"), ID, run_dir, pytest.fail)
        write(run_dir, mirror, [train_event(1)])
        until(lambda: ID in server.runs)
        following = follow(run_dir)
        _, error = following.communicate(timeout=120)
        mirror.close()
    assert following.returncode == 1 and "is mirrored to wandb by itself already" in error


@needs_core
def test_a_run_without_a_tracker_can_be_synced_too(server: Server, run_dir: Path) -> None:
    write(run_dir, tracking.Mirror(), [train_event(1), train_event(2)])
    assert tracking.sync(experiment(name="none"), ID, run_dir) == "2 events, mirrored now"
    assert server.runs[ID].exit_code == 1
    tracking.sync(experiment(name="none"), ID, run_dir, RECORD)
    assert updates(server.runs[ID]) == [1, 2] and server.runs[ID].exit_code == 0


# What goes wrong


@needs_core
def test_auto_without_a_key_stays_offline(run_dir: Path) -> None:
    mirror = tracking.open_mirror(experiment(), ID, run_dir, pytest.fail)
    write(run_dir, mirror, [train_event(1)])
    mirror.finish(RECORD)
    assert len(list((run_dir / "wandb").glob("offline-run-*"))) == 1


@needs_core
def test_online_without_a_key_is_one_warning_and_sync_says_why(run_dir: Path) -> None:
    warnings: list[str] = []
    mirror = tracking.open_mirror(experiment("online"), ID, run_dir, warnings.append)
    write(run_dir, mirror, [train_event(1)])
    mirror.finish(RECORD)
    mirror.close()
    assert len(warnings) == 1 and "API key" in warnings[0]
    with pytest.raises(LnReproError, match="API key"):
        tracking.sync(experiment("online"), ID, run_dir)


@needs_core
@pytest.mark.parametrize("how", ["refused port", "refused key"])
def test_a_server_that_refuses_is_one_warning_in_bounded_time(
    how: str, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setitem(tracking.QUIET, "init_timeout", 2)
    monkeypatch.setenv("WANDB_API_KEY", CANARY)
    with Server(refuse=True) as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.url if how == "refused key" else "http://127.0.0.1:9")
        mirror = tracking.open_mirror(experiment("online"), ID, run_dir, warnings.append)
        write(run_dir, mirror, [train_event(1)])
        mirror.finish(RECORD)
    assert len(warnings) == 1 and CANARY not in warnings[0]
    until(lambda: alive(run_dir) == [])


@needs_core
def test_a_server_that_dies_during_the_run_is_one_warning_and_a_later_sync_adds_the_rest(
    server: Server, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setitem(tracking.QUIET, "finish_timeout", 1)
    mirror = tracking.open_mirror(experiment(), ID, run_dir, warnings.append)
    write(run_dir, mirror, [train_event(1)])
    until(lambda: ID in server.runs)
    server.stop()
    write(run_dir, mirror, [train_event(2)])
    mirror.finish(RECORD)
    assert len(warnings) == 1
    with Server() as revived:
        revived.runs = server.runs
        monkeypatch.setenv("WANDB_BASE_URL", revived.url)
        tracking.sync(experiment(), ID, run_dir)
    assert updates(server.runs[ID]) == [1, 2] and server.runs[ID].exit_code == 0


@needs_core
def test_a_wandb_service_that_dies_is_one_warning(server: Server, run_dir: Path) -> None:
    warnings: list[str] = []
    mirror = tracking.open_mirror(experiment(), ID, run_dir, warnings.append)
    write(run_dir, mirror, [train_event(1)])
    until(lambda: ID in server.runs)
    for process in alive(run_dir):
        if b"wandb-core" in Path(f"/proc/{process}/cmdline").read_bytes():
            os.kill(process, signal.SIGKILL)
    write(run_dir, mirror, [train_event(2)])
    mirror.finish(RECORD)
    assert len(warnings) == 1


def test_a_place_that_cannot_be_written_is_one_warning(run_dir: Path) -> None:
    (run_dir / "wandb").write_text("a file where the folder should be")
    warnings: list[str] = []
    mirror = tracking.open_mirror(experiment("offline"), ID, run_dir, warnings.append)
    write(run_dir, mirror, [train_event(1), train_event(2)])
    mirror.finish(RECORD)
    assert len(warnings) == 1 and "wandb" in warnings[0]


def test_a_full_disk_is_one_warning(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    mirror = tracking.open_mirror(experiment("offline"), ID, run_dir, warnings.append)

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tracking, "write", full)
    mirror.finish(RECORD)
    assert len(warnings) == 1 and "No space left" in warnings[0]


def test_a_follower_that_hangs_is_left_behind(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], stdin=subprocess.PIPE)
    monkeypatch.setattr(tracking, "_start", lambda *arguments: sleeper)
    warnings: list[str] = []
    mirror = tracking.open_mirror(experiment("offline"), ID, run_dir, warnings.append)
    assert isinstance(mirror, tracking.FollowedMirror)
    mirror.close(0.2)
    assert len(warnings) == 1 and sleeper.poll() is not None


@needs_core
@pytest.mark.parametrize("mode", ["online", "offline"])
def test_the_key_is_in_no_file(mode: str, server: Server, run_dir: Path) -> None:
    mirror = tracking.open_mirror(experiment(mode), ID, run_dir, pytest.fail)
    write(run_dir, mirror, [train_event(1)])
    mirror.finish(RECORD, SAMPLES)
    written = [path for path in run_dir.rglob("*") if path.is_file()]
    assert any(path.suffix == ".wandb" for path in written)
    for path in written:
        content = path.read_bytes()
        assert CANARY.encode() not in content, path
        assert b"/a/private/place" not in content, path
    assert CANARY not in json.dumps([server.runs[ID].config, server.runs[ID].info] if server.runs else [])
