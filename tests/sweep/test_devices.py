"""How many runs a device takes, and the GPUs of the machine."""

import pytest

from ln_repro.errors import UserError
from ln_repro.sweep import devices


def test_a_containers_limit_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "CGROUP", tmp_path)
    (tmp_path / "memory.max").write_text("2000000")
    (tmp_path / "memory.current").write_text("1500000")
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 100000\n")
    assert devices.host_free() == 600_000
    (tmp_path / "memory.max").write_text("max\n")
    assert devices.host_free() > 2_000_000


@pytest.fixture
def smi(tmp_path, monkeypatch, tool):
    """Return a function that lets `nvidia-smi` report some rows."""
    monkeypatch.setattr(devices, "MPS", tmp_path / "none")
    monkeypatch.setattr(devices, "host_free", lambda: 1e12)
    return lambda *rows: tool("nvidia-smi", "\n".join(["cat <<END", *rows, "END"]))


def test_each_gpu_that_torch_finds_is_a_device_by_uuid_for_as_many_runs_as_fit(smi, monkeypatch):
    smi("GPU-aaa, 0, Default, 40000", "GPU-bbb, 1, Default, 30000", "GPU-ccc, 2, Default, 20000")
    small, large = devices.gpu_devices(["ccc", "aaa"], 3, need=8e9)  # CUDA's order differs from that of nvidia-smi
    assert [(small.name, small.slots), (large.name, large.slots)] == [("gpu 2", 2), ("gpu 0", 3)]
    assert small.environment == {"CUDA_VISIBLE_DEVICES": "GPU-ccc"}
    assert devices.gpu_devices(["ccc"], 3, need=80e9)[0].slots == 1  # one run is always started
    monkeypatch.setattr(devices, "host_free", lambda: 5 * devices.RUN_BYTES)
    assert [device.slots for device in devices.gpu_devices(["aaa", "bbb"], 8, need=1e9)] == [2, 2]


def test_a_training_is_of_as_many_runs_as_fit_or_if_memory_is_not_reported_as_requested(smi):
    smi("GPU-aaa, 0, Default, 81559", "GPU-bbb, 1, Default, [N/A]")
    for uuid, jobs, stack, expected in (
        ("aaa", 1, None, (1, 8)), ("aaa", 1, 4, (1, 4)), ("aaa", 2, None, (2, 4)), ("aaa", 16, None, (8, 1)),
        ("bbb", 3, None, (3, 1)), ("bbb", 3, 5, (3, 5)), ("unlisted", 3, 5, (3, 5)),
    ):  # fmt: skip
        (device,) = devices.gpu_devices([uuid], jobs, 8.2e9, stack)
        assert (device.slots, device.stack) == expected
    assert devices.gpu_devices(["aaa"], 1, 1e9, None)[0].stack == devices.STACK


def test_a_gpu_for_one_process_at_a_time_is_one_line(smi):
    smi("GPU-aaa, 0, Exclusive_Process, 40000")
    with pytest.raises(UserError, match=r"jobs_per_gpu: GPU 0 is in exclusive compute mode .* use jobs_per_gpu=1"):
        devices.gpu_devices(["aaa"], 3, need=1e9)
    assert len(devices.gpu_devices(["aaa"], 1, need=1e9)) == 1


def test_a_cpu_takes_a_run_for_every_few_threads(monkeypatch):
    monkeypatch.setattr(devices, "cores", lambda: 8)
    monkeypatch.setattr(devices, "host_free", lambda: 1e12)
    arguments = (1, None), (3, None), (16, None), (1, 5)
    assert [devices.cpu_device(threads, jobs).slots for threads, jobs in arguments] == [8, 2, 1, 5]
