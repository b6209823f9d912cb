"""What this machine computes on, and in which arithmetic; torch is asked in another process, since it loads slowly."""

import json
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ln_repro.errors import UserError
from ln_repro.experiment.settings import Experiment
from ln_repro.system import subprocesses

QUESTION = """
import json, torch
gpu = torch.cuda.is_available()
bf16 = gpu and torch.cuda.is_bf16_supported(including_emulation=False)
print(json.dumps([torch.cuda.get_device_name() if gpu else None, bf16]))
"""
DEVICE_FILES = ("nvidia[0-9]*", "nvidiactl", "kfd", "dxg")
"""What a GPU's driver leaves in /dev: NVIDIA's, AMD's, and Windows' for its Linux."""


@dataclass(frozen=True)
class Gpu:
    """The GPU that torch sees; ``name`` is None where it sees none. ``bf16``: in hardware."""

    name: str | None
    bf16: bool


@cache
def gpu() -> Gpu:
    """Ask torch for the GPU; where no driver is, the answer is known without torch."""
    if not any(found for pattern in DEVICE_FILES for found in Path("/dev").glob(pattern)):
        return Gpu(None, False)
    asked = subprocess.run([*subprocesses.SELF, "-c", QUESTION], capture_output=True, text=True, check=False)
    return Gpu(*json.loads(asked.stdout)) if asked.returncode == 0 else Gpu(None, False)


def resolve_precision(experiment: Experiment) -> Experiment:
    """Return the experiment with ``precision=auto`` settled: bf16 on a GPU that has it, fp32 elsewhere.

    Raises:
        UserError: this machine has no such device or arithmetic.
    """
    device, precision = experiment.train.device, experiment.precision
    here = Gpu(None, False) if device == "cpu" else gpu()
    if device == "cuda" and here.name is None:
        raise UserError("train.device: torch sees no GPU here (ln-repro doctor); train.device=cpu runs without one")
    if precision == "fp16" and here.name is None:
        raise UserError("precision: fp16 needs a GPU; fp32 and bf16 run on a CPU")
    if precision == "bf16" and here.name is not None and not here.bf16:
        raise UserError(f"precision: {here.name} has no bf16; take fp32 or fp16")
    if precision == "auto":
        precision = "bf16" if here.bf16 else "fp32"
    return experiment.model_copy(update={"precision": precision})
