"""The GPUs of this machine; torch is queried in a subprocess, because importing it is slow."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ln_repro.system import subprocesses

QUERY = """
import json, torch, warnings
with warnings.catch_warnings(record=True) as caught:
    gpu = torch.cuda.is_available()
bf16 = gpu and torch.cuda.is_bf16_supported(including_emulation=False)
uuids = [str(torch.cuda.get_device_properties(i).uuid) for i in range(torch.cuda.device_count())] if gpu else []
problem = str(caught[0].message).split(". ")[0] if caught else f"torch {torch.__version__} finds no GPU"
print(json.dumps([torch.cuda.get_device_name() if gpu else None, bf16, uuids, problem]))
"""
DEV = Path("/dev")
OTHERS = ("nvidiactl", "kfd", "dxg")
"""Device files of NVIDIA's control device, AMD, and Windows Subsystem for Linux, which also exist without a GPU that
torch supports."""
HIDDEN = ("", "-1", "NoDevFiles")  # values of CUDA_VISIBLE_DEVICES that hide all GPUs; the last one is set by Slurm
REMEDY = "install a torch built for this driver (make setup TORCH='torch==...'), or use train.device=cpu"


@dataclass(frozen=True)
class Gpu:
    """The GPU that torch uses by default."""

    name: str | None  # None if torch finds no GPU
    bf16: bool  # whether the hardware supports it
    uuids: tuple[str, ...] = ()  # those of all GPUs that torch finds
    problem: str = ""  # why torch finds none, although there is a driver and CUDA_VISIBLE_DEVICES hides none


@cache
def default() -> Gpu:
    """Return the GPU that torch finds; without a driver, torch is not queried."""
    nvidia = [*DEV.glob("nvidia[0-9]*")]
    if not nvidia and not any((DEV / name).exists() for name in OTHERS):
        return Gpu(None, False)
    done = subprocess.run([*subprocesses.SELF, "-c", QUERY], capture_output=True, text=True, check=False)
    answer = done.stdout if done.returncode == 0 else '[null, false, [], "torch cannot be imported"]'
    name, bf16, uuids, problem = json.loads(answer)
    expected = nvidia and os.environ.get("CUDA_VISIBLE_DEVICES", "0") not in HIDDEN
    return Gpu(name, bf16, tuple(uuids), f"{nvidia[0]} exists, but {problem}" if expected and name is None else "")


def nvidia_smi() -> dict[str, tuple[str, str, float | None]]:
    """Return index, compute mode and free memory (bytes, or None) of each GPU by UUID; none without `nvidia-smi`."""
    if not shutil.which("nvidia-smi"):
        return {}
    command = ["nvidia-smi", "--query-gpu=uuid,index,compute_mode,memory.free", "--format=csv,noheader,nounits"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = [[part.strip() for part in line.split(",")] for line in answer.stdout.splitlines()]
    return {
        uuid: (index, mode, float(free) * 2**20 if free.isdecimal() else None)
        for uuid, index, mode, free in (row for row in rows if len(row) == 4)
    }
