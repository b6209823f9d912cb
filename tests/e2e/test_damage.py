"""Truncated files, disks that are full or read-only, unusual names: never a traceback, never a lost run."""

import contextlib
import json
import subprocess

import pytest

from tests.e2e.outcomes import outcome
from tests.waiting import HANGS_SECONDS


def test_a_truncated_record_and_events_are_completed(finished, expected):
    run = finished
    record, events = run.folder / "record.json", run.folder / "events.jsonl"
    record.write_text(record.read_text()[:400])
    events.write_bytes(events.read_bytes()[:-60])
    status, out, _ = run.call("status", "--json")
    assert status == 0 and json.loads(out)[0]["state"] == "failed"
    error = run.complete()
    assert "renamed to record.json.damaged" in error and "Traceback" not in error
    assert outcome(run.folder) == expected
    assert len((run.folder / "record.json.damaged").read_text()) == 400


@pytest.fixture
def small_disk(tmp_path):
    """Return a folder on a small disk, and a function that mounts it again with other options."""
    folder = tmp_path / "small"
    folder.mkdir()

    def mount(options, *more):
        return subprocess.run(
            ["mount", *more, "-o", options, "tmpfs", folder], capture_output=True, check=False
        ).returncode

    try:
        if mount("size=20m", "-t", "tmpfs"):
            pytest.skip("may not mount a file system here")
    except FileNotFoundError:
        pytest.skip("no mount here")
    yield folder, lambda options: mount(f"remount,{options}")
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_one_line_and_the_same_command_resumes(command, expected, small_disk):
    folder, _ = small_disk
    run = command("small/runs")
    process = run.start("train.save_every=5")
    run.wait_for_update(10)
    blocks = folder / "other people's files"
    with blocks.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    _, error = process.communicate(timeout=HANGS_SECONDS)
    assert process.returncode in (1, 2), error
    assert "disk is full" in error.splitlines()[-1] and "Traceback" not in error
    blocks.unlink()
    run.complete()
    assert outcome(run.folder) == expected


@pytest.mark.slow
def test_a_read_only_disk_is_one_line(command, expected, small_disk):
    _, remount = small_disk
    run = command("small/runs")
    process = run.start()
    run.wait_for_update(30)
    process.terminate()
    assert process.wait(60) == 130
    if remount("ro"):
        pytest.skip("may not mount it read-only")
    status, _, error = run.finish()
    assert status in (1, 2) and "Read-only file system" in error.splitlines()[-1] and "Traceback" not in error
    assert run.call("status")[0] == 0
    remount("rw")
    assert run.finish()[0] == 0
    assert outcome(run.folder) == expected
