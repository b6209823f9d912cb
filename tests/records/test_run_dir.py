"""Run directories survive crashes, other commands and odd names, and their files alone give the state of a run."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ln_repro.errors import UserError
from ln_repro.records.run_dir import RunFolder, find_run, runs_under, write_json
from ln_repro.records.status import RunStatus, status_of
from ln_repro.system.subprocesses import environment
from tests.examples import diverged, record


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """Return a run directory with an unusual name."""
    return RunFolder(tmp_path / '-it\'s a "line\nfeed", ünï' / "toy-s1-0123456789")


def test_a_process_killed_while_it_writes_leaves_the_old_file(run):
    run.path.mkdir(parents=True)
    target = run.path / "record.json"
    write_json(target, {"whole": True})
    code = (
        "import os, sys; from pathlib import Path\n"
        "from ln_repro.records import run_dir; from ln_repro.system import files\n"
        "files.os.fsync = lambda descriptor: os.kill(os.getpid(), 9)\n"  # all is written, nothing is renamed
        "run_dir.write_json(Path(sys.argv[1]), {'whole': False})"
    )
    done = subprocess.run([sys.executable, "-c", code, str(target)], env=environment(), check=False)
    assert done.returncode == -signal.SIGKILL
    assert json.loads(target.read_text()) == {"whole": True}
    write_json(target, {"whole": "again"})
    assert json.loads(target.read_text()) == {"whole": "again"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [(b"\xe4", "not valid JSON"), (b"[]", "expected a JSON object"), (b'{"status": "finished"}', "schema: is not set")],
)
def test_an_odd_file_is_named_and_left_out(run, text, reason, capsys):
    run.path.mkdir(parents=True)
    assert run.record is None and capsys.readouterr().err == ""
    (run.path / "record.json").write_bytes(text)
    assert run.record is None and run.state == "failed"
    err = capsys.readouterr().err
    path = str(run.path / "record.json").replace("\n", "\\n")
    assert err.startswith(f"ln-repro: {path} is ignored: {reason}") and err.count("\n") == 1


def test_a_failure_is_told_until_the_next_session(run):
    run.path.mkdir(parents=True)
    assert run.state == "interrupted" and run.failure is None
    run.fail("train failed (exit 9)")
    assert run.state == "failed" and run.failure == "train failed (exit 9)"
    with run.lock():
        assert run.state == "running"
    run.begin(print)
    assert run.state == "interrupted"


def test_damaged_records_are_renamed_and_never_overwritten(run, capsys):
    run.path.mkdir(parents=True)
    for number in (1, 2):
        (run.path / "record.json").write_text(f"{number}")
        run.begin(print)
        assert f"record.json is damaged: renamed to record.json.damaged{number}\n" in capsys.readouterr().out
    assert [(run.path / f"record.json.damaged{number}").read_text() for number in (1, 2)] == ["1", "2"]


def test_a_worker_that_outlives_its_command_still_holds_the_directory(run):
    with run.lock() as ours:
        worker = subprocess.Popen(["sleep", "3600"], pass_fds=(ours.descriptor,))
    assert run.holder
    worker.kill()
    worker.wait()
    assert not run.holder


def test_runs_are_found_but_not_those_set_aside_which_are_never_overwritten(run):
    place = run.path.parent
    assert runs_under(place) == []
    for number in (1, 2, 3):
        run.path.mkdir(parents=True)
        write_json(run.path / "experiment.json", {"number": number})
        aside = run.set_aside()
        assert aside.name == f"{run.path.name}.old{number}" and RunFolder(aside).experiment == {"number": number}
    for name in ("b-s1-0", "a-s1-0", "odd-s1-0"):
        (place / name).mkdir(parents=True)
        write_json(place / name / "experiment.json", {})
    (place / "odd-s1-0" / "experiment.json").write_text("[]")
    (place / "not-a-run").mkdir()
    assert [folder.path.name for folder in runs_under(place)] == ["a-s1-0", "b-s1-0"]
    with pytest.raises(UserError, match=r"experiment\.json: not a run directory"):
        find_run(str(place / "a-s1-0" / "experiment.json"), place)


@pytest.mark.parametrize("name", ["experiment.json", "record.json", "events.jsonl"])
def test_a_run_whose_files_cannot_be_read_is_named_and_left_out(name, run, capsys):
    place = run.path.parent
    for directory in ("a-s1-0", "b-s1-0"):
        (place / directory).mkdir(parents=True)
        write_json(place / directory / "experiment.json", {})
    (place / "a-s1-0" / name).unlink(missing_ok=True)
    (place / "a-s1-0" / name).mkdir()
    assert [folder.path.name for folder in runs_under(place)] == ["b-s1-0"]
    err = capsys.readouterr().err
    assert err.endswith(f"a-s1-0/{name} is ignored: Is a directory\n") and err.count("\n") == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_run_whose_directory_cannot_be_entered_is_named(run, capsys):
    run.path.mkdir(parents=True)
    write_json(run.path / "experiment.json", {})
    run.path.chmod(0)
    assert runs_under(run.path.parent) == []
    run.path.chmod(0o700)
    assert "experiment.json is ignored: Permission denied" in capsys.readouterr().err


def test_a_claim_is_on_the_directory_that_is_there_now(run):
    """Somebody waits for a directory that is set aside meanwhile: he gets the new one, not the lock of the old."""
    with run.lock() as first:
        run.set_aside()
        with run.lock() as second:
            assert not os.path.samestat(os.fstat(first.descriptor), os.fstat(second.descriptor))
            assert os.path.samestat(os.fstat(second.descriptor), next(run.path.glob(".lock-*")).stat())


@pytest.mark.parametrize(("losses", "finished", "expected"), [
    ({20: 9.0, 40: 2.5}, record(), ("finished", 40, 2.5, 41.512)),
    ({20: 9.0, 40: None}, diverged(), ("diverged", 40, None, None)),
    ({}, None, ("interrupted", 0, None, None)),
])  # fmt: skip
def test_the_state_of_a_run(tmp_path, losses, finished, expected):
    place = tmp_path / "my runs"
    run = RunFolder(place / "toy_preln_nowarm-s1-0123456789")
    run.path.mkdir(parents=True)
    write_json(run.path / "experiment.json", {"exp": "toy_preln_nowarm", "seed": 1, "lr": 2e-3, "id": "0123456789"})
    run.events.write("status", 0, 1, state="started")
    run.events.write("status", 0, 1)  # damaged, which must not hide the other runs
    for update, loss in losses.items():
        run.events.write("train", update, 1, loss=loss)
    if finished:
        write_json(run.path / "record.json", finished)
    (status,) = map(status_of, runs_under(place))
    assert status == RunStatus("0123456789", "toy_preln_nowarm", 1, 2e-3, *expected, str(run.path))
    with run.lock():
        assert (status_of(run).state == "running") == (finished is None)
