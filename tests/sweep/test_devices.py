"""How many runs a device takes: slots, measured memory, and the GPUs of the machine."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ln_repro.errors import UserError
from ln_repro.sweep import devices
from ln_repro.sweep.devices import GIGABYTE, Memory


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
def test_a_run_starts_where_its_memory_is_left(free, each, running, fits):
    assert memory(free, each).has_room(range(running)) is fits


def test_what_a_run_needs_is_the_most_that_was_measured():
    sizes = iter([4.0, 1.0])
    shared = Memory(lambda: 3 * GIGABYTE, lambda pids: next(sizes) * GIGABYTE, GIGABYTE)
    assert not shared.has_room([1])
    assert not shared.has_room([1]) and shared.need == 4 * GIGABYTE


def test_a_process_is_measured_with_its_descendants():
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


def test_a_containers_limit_counts(tmp_path, monkeypatch):
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


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool):
    """Return a function that lets `nvidia-smi` report some rows."""
    monkeypatch.setattr(devices, "MPS", tmp_path / "none")

    def report(*rows: str) -> None:
        tool("nvidia-smi", "\n".join(["cat <<END", *rows, "END"]))
        devices._ask.cache_clear()

    yield report
    devices._ask.cache_clear()


def test_each_gpu_that_torch_finds_is_a_device_by_uuid_for_as_many_runs_as_requested(smi):
    smi("GPU-aaa, 0, Default, 40000", "GPU-bbb, 1, Default, 30000", "GPU-ccc, 2, Default, 20000")
    fast, slow = devices.gpu_devices(["ccc", "aaa"], 3, GIGABYTE)  # CUDA's order differs from that of nvidia-smi
    assert [fast.name, slow.name] == ["gpu 2", "gpu 0"] and fast.slots == slow.slots == 3
    assert fast.environment == {"CUDA_VISIBLE_DEVICES": "GPU-ccc"}
    assert [device.memories[0].free() for device in (fast, slow)] == [20000 * 2**20, 40000 * 2**20]


@pytest.mark.parametrize("listed", ["GPU-aaa, 0, [N/A], [N/A]", "GPU-bbb, 0, Default, 40000"])
def test_a_gpu_whose_memory_is_not_reported_takes_as_many_runs_as_requested(smi, listed):
    smi(listed)
    (device,) = devices.gpu_devices(["aaa"], 3, GIGABYTE)
    assert len(device.memories) == 1 and device.has_room([os.getpid()] * 2) and not device.has_room([os.getpid()] * 3)


def test_a_gpu_for_one_process_at_a_time_is_one_line(smi):
    smi("GPU-aaa, 0, Exclusive_Process, 40000")
    with pytest.raises(UserError, match=r"jobs_per_gpu: GPU 0 is in exclusive compute mode .* use jobs_per_gpu=1"):
        devices.gpu_devices(["aaa"], 3, GIGABYTE)
    assert len(devices.gpu_devices(["aaa"], 1, GIGABYTE)) == 1


def test_a_cpu_takes_a_run_a_thread(monkeypatch):
    monkeypatch.setattr(devices, "cores", lambda: 8)
    assert [devices.cpu_device(*given).slots for given in ((1, None), (3, None), (16, None), (1, 5))] == [8, 2, 1, 5]
