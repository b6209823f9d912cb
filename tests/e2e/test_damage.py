"""Truncated files, disks that are full or read-only, unusual names: never a traceback, never a lost run."""

import contextlib
import json
import shutil
import subprocess

import pytest

from tests.e2e.conftest import outcome
from tests.waiting import HANGS_SECONDS


def test_a_truncated_record_and_events_are_completed(finished, expected):
    run = finished
    record, events = run.folder / "record.json", run.folder / "events.jsonl"
    record.write_text(record.read_text()[:400])
    events.write_bytes(events.read_bytes()[:-60])
    status, out, _ = run.call_here("status", "--json")
    assert status == 0 and json.loads(out)[0]["state"] == "failed"
    error = run.complete()
    assert "renamed to record.json.damaged1" in error and "Traceback" not in error
    assert outcome(run.folder) == expected
    assert len((run.folder / "record.json.damaged1").read_text()) == 400


def test_lost_hypotheses_are_decoded_again(finished, expected):
    shutil.rmtree(finished.folder / "hyps")
    (finished.folder / "record.json").unlink()
    finished.complete()
    assert outcome(finished.folder) == expected


@pytest.fixture
def small_disk(tmp_path):
    """Return a folder on a small disk."""
    folder = tmp_path / "small"
    folder.mkdir()
    if not shutil.which("mount") or mount("size=20m", "-t", "tmpfs", "tmpfs", folder):
        pytest.skip("may not mount a file system here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def mount(options, *more) -> int:
    return subprocess.run(["mount", "-o", options, *more], capture_output=True, check=False).returncode


def test_a_full_or_read_only_disk_is_one_line_and_the_same_command_resumes(command, expected, small_disk):
    run = command("small/runs")
    process = run.start("train.save_every=5")
    run.wait_for_update(10)
    blocks = small_disk / "other people's files"
    with blocks.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    _, error = process.communicate(timeout=HANGS_SECONDS)
    assert process.returncode in (1, 2), error
    assert "disk is full" in error.splitlines()[-1] and "Traceback" not in error
    blocks.unlink()
    if mount("remount,ro", small_disk) == 0:
        status, _, error = run.finish()
        assert status in (1, 2) and "Read-only file system" in error.splitlines()[-1] and "Traceback" not in error
        assert run.call_here("status")[0] == 0
        mount("remount,rw", small_disk)
    run.complete()
    assert outcome(run.folder) == expected
