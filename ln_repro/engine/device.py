"""The GPU of this machine and its precision; torch is queried in another process, because its import is slow."""

import json
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ln_repro.errors import UserError
from ln_repro.experiment.settings import Experiment
from ln_repro.system import subprocesses

QUERY = """
import json, torch
gpu = torch.cuda.is_available()
bf16 = gpu and torch.cuda.is_bf16_supported(including_emulation=False)
print(json.dumps([torch.cuda.get_device_name() if gpu else None, bf16]))
"""
DEVICE_FILES = ("nvidia[0-9]*", "nvidiactl", "kfd", "dxg")
"""Files in /dev of GPU drivers: NVIDIA, AMD, and Windows Subsystem for Linux."""


@dataclass(frozen=True)
class Gpu:
    """The GPU that torch finds; ``name`` is None if there is none. ``bf16``: supported in hardware."""

    name: str | None
    bf16: bool


@cache
def gpu() -> Gpu:
    """Return the GPU that torch finds; without a driver, torch is not queried."""
    if not any(found for pattern in DEVICE_FILES for found in Path("/dev").glob(pattern)):
        return Gpu(None, False)
    done = subprocess.run([*subprocesses.SELF, "-c", QUERY], capture_output=True, text=True, check=False)
    return Gpu(*json.loads(done.stdout)) if done.returncode == 0 else Gpu(None, False)


def resolve_precision(experiment: Experiment) -> Experiment:
    """Return the experiment with ``precision=auto`` replaced: bf16 on a GPU that supports it, otherwise fp32.

    Raises:
        UserError: this machine does not have the device or does not support the precision.
    """
    device, precision = experiment.train.device, experiment.precision
    here = Gpu(None, False) if device == "cpu" else gpu()
    if device == "cuda" and here.name is None:
        raise UserError("train.device: torch finds no GPU (see ln-repro doctor); use train.device=cpu")
    if precision == "fp16" and here.name is None:
        raise UserError("precision: fp16 needs a GPU; use fp32 or bf16")
    if precision == "bf16" and here.name is not None and not here.bf16:
        raise UserError(f"precision: {here.name} does not support bf16; use fp32 or fp16")
    if precision == "auto":
        precision = "bf16" if here.bf16 else "fp32"
    return experiment.model_copy(update={"precision": precision})
