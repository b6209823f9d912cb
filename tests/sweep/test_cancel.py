"""A cancelled run is stopped by its process id, unless another process has that id by now."""

import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from ln_repro.sweep.cluster import stopped
from ln_repro.system.directory_lock import Holder, acquire, machine, newest


def test_only_the_process_that_acquired_the_lock_is_stopped() -> None:
    process = subprocess.Popen(["sleep", "3600"])
    created = psutil.Process(process.pid).create_time()
    holder = Holder("here", machine(), process.pid, None, "", created=created)
    assert not stopped(replace(holder, created=created - 60))
    assert not stopped(replace(holder, created=None))  # a lock file of an older version
    assert process.poll() is None
    assert stopped(holder) and process.wait() == -signal.SIGTERM
    assert not stopped(holder)


def test_a_lock_holds_the_start_time_of_its_process(tmp_path: Path) -> None:
    with acquire(tmp_path):
        _, found = newest(tmp_path)
    assert found and found.created == pytest.approx(psutil.Process().create_time(), abs=1)
