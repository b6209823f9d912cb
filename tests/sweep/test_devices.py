"""How many runs a device takes: slots, measured memory, and the GPUs of the machine."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ln_repro.sweep import devices
from ln_repro.sweep.devices import GIGABYTE, Device, Memory


def memory(free: float, each: float, guess: float = 1.0) -> Memory:
    """Return a memory with so many gigabytes free, and taken by each run."""
    return Memory(lambda: free * GIGABYTE, lambda pids: each * GIGABYTE * len(list(pids)), guess * GIGABYTE)


@pytest.mark.parametrize(
    ("free", "each", "running", "fits"),
    [
        (0.1, 0.0, 0, True),  # the first run always starts
        (2.3, 2.0, 1, False),  # less than one run and a margin is left
        (2.5, 2.0, 1, True),
        (1.3, 0.4, 1, False),  # the one that is running will need 0.6 of the 1.3
        (1.9, 0.4, 1, True),
    ],
)
def test_a_run_starts_where_its_memory_is_left(free: float, each: float, running: int, fits: bool) -> None:
    assert memory(free, each).has_room(range(running)) is fits


def test_what_a_run_needs_is_the_most_that_was_measured() -> None:
    sizes = iter([4.0, 1.0])
    shared = Memory(lambda: 3 * GIGABYTE, lambda pids: next(sizes) * GIGABYTE, GIGABYTE)
    assert not shared.has_room([1])
    assert not shared.has_room([1]) and shared.need == 4 * GIGABYTE


def test_a_device_takes_no_more_runs_than_slots() -> None:
    device = Device("cpu", 2, [memory(100, 1)])
    assert device.has_room([1]) and not device.has_room([1, 2])


def test_a_process_is_measured_with_its_descendants() -> None:
    code = "import subprocess, sys; b = bytearray(50_000_000); subprocess.run([sys.executable, '-c', sys.argv[1]])"
    child = "b = bytearray(80_000_000); print('up', flush=True); import time; time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code, child], stdout=subprocess.PIPE)
    assert process.stdout and process.stdout.readline()
    taken = devices.host_taken([process.pid])
    for member in [*psutil.Process(process.pid).children(), process]:
        member.kill()
    process.wait()
    assert 130e6 < taken < 300e6
    assert devices.host_taken([process.pid]) == 0


def test_a_containers_limit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "CGROUP", tmp_path)
    assert devices.host_free() > 0
    for name, text in {
        "memory.max": "2000000",
        "memory.current": "1500000",
        "memory.stat": "anon 1\ninactive_file 100000\n",
    }.items():
        (tmp_path / name).write_text(text)
    assert devices.host_free() == 600_000
    (tmp_path / "memory.max").write_text("max\n")
    assert devices.host_free() > 2_000_000


SMI = """#!{python}
import sys
asked = next(word for word in sys.argv if word.startswith("--query-gpu=")).partition("=")[2]
rows = {{"index,uuid": ["0, GPU-aaa", "1, GPU-bbb"], "memory.free": ["40000"]}}[asked]
print("\\n".join(rows))
"""


@pytest.fixture
def two_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put an `nvidia-smi` with two GPUs on the path."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text(SMI.format(python=sys.executable))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(devices, "cores", lambda: 16)


@pytest.mark.parametrize(("allowed", "found"), [(None, ["0", "1"]), ("1", ["1"]), ("GPU-aa", ["0"]), ("", [])])
def test_only_the_visible_gpus_are_used(
    two_gpus, monkeypatch: pytest.MonkeyPatch, allowed: str | None, found: list[str]
) -> None:
    if allowed is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", allowed)
    assert devices.gpus() == found


def test_each_gpu_is_a_device_for_as_many_runs_as_asked_for(two_gpus) -> None:
    one, two = devices.local_devices(True, 1, None, 3)
    assert (one.slots, two.slots, two.environment["CUDA_VISIBLE_DEVICES"]) == (3, 3, "1")
    assert one.memories[0].free() == 40000 * 2**20


def test_a_cpu_takes_a_run_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "cores", lambda: 8)
    assert [
        devices.local_devices(False, threads, jobs, 1)[0].slots
        for threads, jobs in ((1, None), (3, None), (16, None), (1, 5))
    ] == [8, 2, 1, 5]
