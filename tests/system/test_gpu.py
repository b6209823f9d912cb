"""Which arithmetic a machine gets, and what it is told when it lacks one."""

import pytest

from ln_repro.engine.process_group import Group
from ln_repro.errors import UserError
from ln_repro.experiment.precision import resolve_precision
from ln_repro.system import gpu as gpus
from ln_repro.system.distributed import Rank
from ln_repro.system.gpu import Gpu
from tests.examples import experiment

NONE, OLD, NEW = Gpu(None, False), Gpu("Old GPU", False), Gpu("New GPU", True)


@pytest.mark.parametrize(("gpu", "wanted", "asked", "settled"), [
    (NONE, "auto", "auto", "fp32"), (OLD, "auto", "auto", "fp32"), (NEW, "auto", "auto", "bf16"),
    (NEW, "cpu", "auto", "fp32"), (NONE, "auto", "bf16", "bf16"),
])  # fmt: skip
def test_precision_is_settled(monkeypatch, gpu, wanted, asked, settled):
    monkeypatch.setattr(gpus, "default", lambda: gpu)
    assert resolve_precision(experiment(train__device=wanted, precision=asked)).precision == settled


@pytest.mark.parametrize(("gpu", "wanted", "asked", "message"), [
    (NONE, "cuda", "auto", "train.device: torch finds no GPU"),
    (OLD, "auto", "bf16", "precision: Old GPU does not support bf16; use fp32"),
])  # fmt: skip
def test_what_the_machine_lacks_is_one_line(monkeypatch, gpu, wanted, asked, message):
    monkeypatch.setattr(gpus, "default", lambda: gpu)
    with pytest.raises(UserError, match=f"^{message}"):
        resolve_precision(experiment(train__device=wanted, precision=asked))


def test_a_gpu_that_torch_cannot_use_is_one_line_and_not_the_cpu_in_silence(monkeypatch, tmp_path):
    monkeypatch.setattr(gpus, "DEV", tmp_path)
    assert gpus.default.__wrapped__() == NONE  # without a driver
    (tmp_path / "nvidia0").touch()
    assert gpus.default.__wrapped__() == NONE  # CUDA_VISIBLE_DEVICES hides all GPUs
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "99")
    monkeypatch.setattr(gpus, "default", gpus.default.__wrapped__)
    assert resolve_precision(experiment(train__device="cpu")).precision == "fp32"
    with pytest.raises(UserError, match=r"nvidia0 exists, but [^\n]*; install a torch .* or use train.device=cpu$"):
        resolve_precision(experiment())


def test_a_process_without_a_gpu_of_its_own_is_one_line(monkeypatch):
    group = Group(Rank())
    group.rank = Rank(index=2, size=4, local=2)
    group.use_gpu()  # nothing to choose without a GPU
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    with pytest.raises(UserError, match=r"process 3 has no GPU .* finds 2 on .*; use --nproc-per-node=2, or .*cpu$"):
        group.use_gpu()
