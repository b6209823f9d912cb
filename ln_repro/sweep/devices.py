"""The devices of a local sweep, the machine's cores or its GPUs, and how many runs fit on each at a time."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from ln_repro.errors import UserError
from ln_repro.system.gpu import nvidia_smi
from ln_repro.system.subprocesses import cores

RUN_BYTES = 1.2e9  # main memory assumed for each run
MARGIN = 1.2  # GPU memory reserved for a run, relative to its estimate
STACK = 16  # maximum number of runs that are trained as one if a sweep does not say it; from about 6 on, a GPU is busy
MPS = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", Path("/tmp", "nvidia-mps")))
"""The folder of CUDA's Multi-Process Service, with which processes share a GPU in exclusive compute mode."""
CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Device:
    """A device for up to ``slots`` trainings at a time, each of up to ``stack`` runs; ``environment`` selects it."""

    name: str
    slots: int
    environment: Mapping[str, str] = field(default_factory=dict)
    stack: int = 1


def cpu_device(threads: int, jobs: int | None, stack: int = 1) -> Device:
    """Return the cores of this machine, for ``jobs`` trainings at a time, by default one per ``threads`` cores."""
    return Device("cpu", jobs or max(1, min(cores() // threads, int(host_free() / RUN_BYTES))), stack=stack)


def gpu_devices(uuids: Sequence[str], jobs_per_gpu: int, need: float, stack: int | None = 1) -> list[Device]:
    """Return the GPUs that torch finds, given by their ``uuids``.

    Each takes up to ``jobs_per_gpu`` trainings at a time, as far as main memory and GPU memory are free now; a run
    needs ``need`` bytes of the latter. Each training is of up to ``stack`` runs. If that is None, and the memory of the
    GPU is known, it is of up to `STACK` runs, limited to the number of separate ones that fit into free memory.
    """
    listed, devices = nvidia_smi(), []
    in_main_memory = int(host_free() / RUN_BYTES / max(1, len(uuids)))

    def device(name: str, free: float | None, environment: Mapping[str, str]) -> Device:
        runs = in_main_memory if free is None else min(in_main_memory, int(free / (MARGIN * need)))
        slots = max(1, min(jobs_per_gpu, runs))
        most = 1 if free is None else STACK
        return Device(name, slots, environment, stack or max(1, min(most, runs // slots)))

    for uuid in uuids:
        if f"GPU-{uuid}" not in listed:
            continue
        index, mode, free = listed[f"GPU-{uuid}"]
        if mode == "Exclusive_Process" and jobs_per_gpu > 1 and not MPS.exists():
            raise UserError(
                f"jobs_per_gpu: GPU {index} is in exclusive compute mode and takes one process, found "
                f"jobs_per_gpu={jobs_per_gpu}; use jobs_per_gpu=1, or have the mode set to Default (nvidia-smi -c 0)"
            )
        devices.append(device(f"gpu {index}", free, {"CUDA_VISIBLE_DEVICES": f"GPU-{uuid}"}))
    return devices or [device("gpu", None, {})]  # a part of a GPU, or one that is not NVIDIA's


def host_free() -> float:
    """Return the free memory in bytes, within a container's limit."""
    free = float(psutil.virtual_memory().available)
    try:
        limit, used = ((CGROUP / name).read_text() for name in ("memory.max", "memory.current"))
        cache = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        return min(free, float(limit) - float(used) + float(cache["inactive_file"]))
    except (OSError, ValueError, KeyError):  # no container, or no limit
        return free
