"""Which arithmetic a machine gets, and what it is told when it lacks one."""

import pytest

from ln_repro.engine import device
from ln_repro.engine.device import Gpu, resolve_precision
from ln_repro.errors import UserError
from tests.examples import experiment

NONE, OLD, NEW = Gpu(None, False), Gpu("Old GPU", False), Gpu("New GPU", True)


@pytest.mark.parametrize(
    ("gpu", "wanted", "asked", "settled"),
    [
        (NONE, "auto", "auto", "fp32"),
        (OLD, "auto", "auto", "fp32"),
        (NEW, "auto", "auto", "bf16"),
        (NEW, "cpu", "auto", "fp32"),
        (OLD, "cuda", "fp16", "fp16"),
        (NONE, "auto", "bf16", "bf16"),
    ],
)
def test_precision_is_settled(monkeypatch, gpu, wanted, asked, settled):
    monkeypatch.setattr(device, "gpu", lambda: gpu)
    assert resolve_precision(experiment(train__device=wanted, precision=asked)).precision == settled


@pytest.mark.parametrize(
    ("gpu", "wanted", "asked", "message"),
    [
        (NONE, "cuda", "auto", "train.device: torch finds no GPU"),
        (NONE, "auto", "fp16", "precision: fp16 needs a GPU; use fp32 or bf16"),
        (OLD, "auto", "bf16", "precision: Old GPU does not support bf16; use fp32 or fp16"),
    ],
)
def test_what_the_machine_lacks_is_one_line(monkeypatch, gpu, wanted, asked, message):
    monkeypatch.setattr(device, "gpu", lambda: gpu)
    with pytest.raises(UserError, match=message) as caught:
        resolve_precision(experiment(train__device=wanted, precision=asked))
    assert "\n" not in str(caught.value)


def test_torchs_answer_is_read(monkeypatch):
    monkeypatch.setattr(device, "DEVICE_FILES", ())
    assert device.gpu.__wrapped__() == NONE  # without a driver
    monkeypatch.setattr(device, "DEVICE_FILES", ("null",))
    found = device.gpu.__wrapped__()
    assert isinstance(found.bf16, bool) and (found.name is None or found.name)
