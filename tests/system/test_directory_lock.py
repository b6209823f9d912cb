"""One process at a time holds a directory: on one machine or several, with any clocks."""

import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import time
from collections.abc import Callable
from multiprocessing.synchronize import Event
from pathlib import Path

import psutil
import pytest

from ln_repro.errors import LnReproError
from ln_repro.records.run_dir import RunFolder, write_json
from ln_repro.system import directory_lock
from ln_repro.system.directory_lock import InUseError, acquire, holder, lost, machine, newest
from tests.examples import record
from tests.waiting import HANGS_SECONDS, until

FORK = multiprocessing.get_context("fork")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test notice soon that another machine holds a lock; only dead ones let it expire."""
    monkeypatch.setattr(directory_lock, "HEARTBEAT_SECONDS", 0.1)
    monkeypatch.setattr(directory_lock, "PATIENCE_SECONDS", 0.6)


@pytest.fixture
def expire(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that lets locks expire within a test's time."""
    return lambda: monkeypatch.setattr(directory_lock, "EXPIRY_SECONDS", 1.0)


def hold(folder: Path, machine: str, taken_over: Event) -> None:
    """Hold a directory, as a process of some machine, until another process takes it over."""
    directory_lock.machine = lambda: machine
    with acquire(folder) as ours:
        until(lambda: ours.taken_over)
        taken_over.set()


@pytest.fixture
def holding(request: pytest.FixtureRequest, tmp_path: Path):
    """Return a directory, the process (of another machine by default) that holds it, and the event of its takeover."""
    taken_over = FORK.Event()
    process = FORK.Process(target=hold, args=(tmp_path, getattr(request, "param", "other"), taken_over))
    process.start()
    until(lambda: newest(tmp_path)[0])
    yield tmp_path, process, taken_over
    process.kill()
    process.join()


@pytest.mark.parametrize("holding", [machine()], indirect=True, ids=["here"])
def test_a_holder_on_this_machine_keeps_others_out_until_it_is_killed(holding):
    folder, process, _ = holding
    with pytest.raises(InUseError, match=f"in use by process {process.pid}; wait for it or stop it"), acquire(folder):
        pass
    process.kill()
    process.join()
    assert holder(folder) is None
    with acquire(folder):
        assert holder(folder).pid == os.getpid()
    assert holder(folder) is None


def test_a_process_that_was_suspended_too_long_notices_the_takeover(holding, expire):
    folder, process, taken_over = holding
    os.kill(process.pid, signal.SIGSTOP)
    until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
    expire()
    with acquire(folder) as ours:
        os.kill(process.pid, signal.SIGCONT)
        assert taken_over.wait(HANGS_SECONDS)
        ours.check()
        assert holder(folder).pid == os.getpid()


def test_a_holder_whose_directory_was_deleted_leaves_the_next_one_alone(tmp_path, monkeypatch):
    """Both locks have the same number."""
    ours = acquire(tmp_path / "run")
    shutil.rmtree(tmp_path / "run")
    monkeypatch.setattr(directory_lock, "machine", lambda: "another")
    with acquire(tmp_path / "run") as theirs:
        assert ours.number == theirs.number
        with pytest.raises(LnReproError, match=f"taken over by process {os.getpid()}"):
            ours.check()
        ours.release()
        theirs.check()
        assert holder(tmp_path / "run") == theirs.holder


def test_a_lock_that_its_command_released_is_not_lost_to_a_stack_that_still_trains_its_run(tmp_path):
    with acquire(tmp_path):
        session = newest(tmp_path)
    assert newest(tmp_path) != session and not lost(tmp_path, session)
    with acquire(tmp_path):
        assert lost(tmp_path, session)


@pytest.mark.parametrize("skew", [-86_400, 86_400])
def test_only_a_dead_holder_is_replaced_whatever_the_clocks_say(holding, expire, monkeypatch, skew):
    folder, process, *_ = holding
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + skew)
    assert not holder(folder).is_local
    with pytest.raises(InUseError, match=r"in use by process \d+ on .+; wait for it or stop it"), acquire(folder):
        pass
    process.kill()
    process.join()
    os.utime(folder / "sessions" / "1.json", (clock() - skew, clock() - skew))
    expire()
    assert holder(folder) is None
    began = time.monotonic()
    with acquire(folder) as ours:
        assert time.monotonic() - began > 0.9 and ours.number == 2


def test_a_full_disk_leaves_no_lock_of_an_unknown_holder(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"), acquire(tmp_path):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    with acquire(tmp_path) as ours:
        assert ours.number == 1


def test_a_damaged_lock_file_expires(tmp_path, expire):
    expire()
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / "1.json").write_text('{"host": "a')
    with acquire(tmp_path) as ours:
        assert ours.number == 2


def compete(place: str, seed: int, alien: bool) -> None:
    """Lock runs in random order, and write the record of each that has none."""
    if alien:
        directory_lock.machine = lambda: "other"
    directory_lock.PATIENCE_SECONDS, directory_lock.EXPIRY_SECONDS = 0.3, 60.0
    runs = [RunFolder(Path(place) / f"run-{number}") for number in range(100)]
    random.Random(seed).shuffle(runs)
    while runs := [run for run in runs if run.record is None]:
        for run in runs:
            try:
                with run.lock() as ours:
                    if run.record is None:
                        with (run.path / "begun").open("a") as begun:
                            begun.write(f"{os.getpid()}\n")
                        time.sleep(0.001)
                        ours.check()
                        write_json(run.path / "record.json", record(writer=os.getpid()))
            except InUseError:
                continue


def test_16_processes_of_two_machines_write_100_records_once_each(tmp_path):
    crowd = [FORK.Process(target=compete, args=(str(tmp_path), seed, seed % 2 == 1)) for seed in range(16)]
    for process in crowd:
        process.start()
    for process in crowd:
        process.join()
    assert [process.exitcode for process in crowd] == [0] * 16
    writers = {run.name: json.loads((run / "record.json").read_text())["writer"] for run in tmp_path.iterdir()}
    assert len(writers) == 100
    for name, writer in writers.items():
        assert (tmp_path / name / "begun").read_text() == f"{writer}\n"
