"""How many runs a device takes, and the GPUs of the machine."""

import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from ln_repro.errors import UserError
from ln_repro.sweep import devices


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


Smi = Callable[..., None]


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Smi:
    """Return a function that lets `nvidia-smi` report some rows."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(devices, "MPS", tmp_path / "none")
    monkeypatch.setattr(devices, "host_free", lambda: 1e12)

    def report(*rows: str) -> None:
        tool = tmp_path / "nvidia-smi"
        tool.write_text("\n".join(["#!/bin/sh", *(f"echo {shlex.quote(row)}" for row in rows)]))
        tool.chmod(0o755)

    return report


def test_each_gpu_that_torch_finds_is_a_device_by_uuid_for_as_many_runs_as_fit(smi: Smi) -> None:
    smi("GPU-aaa, 0, Default, 40000", "GPU-bbb, 1, Default, 30000", "GPU-ccc, 2, Default, 20000")
    small, large = devices.gpu_devices(["ccc", "aaa"], 3, need=8e9)  # CUDA's order differs from that of nvidia-smi
    assert [(small.name, small.slots), (large.name, large.slots)] == [("gpu 2", 2), ("gpu 0", 3)]
    assert small.environment == {"CUDA_VISIBLE_DEVICES": "GPU-ccc"}
    assert devices.gpu_devices(["ccc"], 3, need=80e9)[0].slots == 1  # one run is always tried


def test_the_runs_of_all_gpus_fit_into_main_memory(smi: Smi, monkeypatch: pytest.MonkeyPatch) -> None:
    smi("GPU-aaa, 0, Default, 40000", "GPU-bbb, 1, Default, 40000")
    monkeypatch.setattr(devices, "host_free", lambda: 5 * devices.RUN_BYTES)
    assert [device.slots for device in devices.gpu_devices(["aaa", "bbb"], 8, need=1e9)] == [2, 2]


def test_a_gpu_whose_memory_is_not_reported_takes_as_many_runs_as_requested(smi: Smi) -> None:
    smi("GPU-aaa, 0, [N/A], [N/A]")
    assert devices.gpu_devices(["aaa"], 3, need=1e12)[0].slots == 3


def test_a_gpu_that_nvidia_smi_does_not_list_is_one_device(smi: Smi) -> None:
    smi("GPU-aaa, 0, Default, 40000")
    (device,) = devices.gpu_devices(["part-of-a"], 3, 1e9)
    assert device.slots == 3 and not device.environment


def test_a_gpu_for_one_process_at_a_time_is_one_line(smi: Smi) -> None:
    smi("GPU-aaa, 0, Exclusive_Process, 40000")
    with pytest.raises(UserError, match=r"jobs_per_gpu: GPU 0 is in exclusive compute mode .* use jobs_per_gpu=1"):
        devices.gpu_devices(["aaa"], 3, 1e9)
    assert len(devices.gpu_devices(["aaa"], 1, 1e9)) == 1


def test_a_cpu_takes_a_run_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "cores", lambda: 8)
    monkeypatch.setattr(devices, "host_free", lambda: 1e12)
    assert [devices.cpu_device(*given).slots for given in ((1, None), (3, None), (16, None), (1, 5))] == [8, 2, 1, 5]
