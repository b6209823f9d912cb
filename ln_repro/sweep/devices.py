"""The devices of a local sweep, the machine's cores or its GPUs, and how many runs fit on each at a time."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from ln_repro.errors import UserError
from ln_repro.system.gpu import nvidia_smi
from ln_repro.system.subprocesses import cores

RUN_BYTES = 1.2e9
"""Main memory assumed for each run."""
MARGIN = 1.2
"""GPU memory reserved for a run, relative to its estimate."""
MPS = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", Path("/tmp", "nvidia-mps")))
"""The folder of CUDA's Multi-Process Service, with which processes share a GPU in exclusive compute mode."""
CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Device:
    """A device for up to ``slots`` runs at a time; ``environment`` selects it."""

    name: str
    slots: int
    environment: Mapping[str, str] = field(default_factory=dict)


def cpu_device(threads: int, jobs: int | None) -> Device:
    """Return the cores of this machine, for ``jobs`` runs at a time, by default one per ``threads`` cores."""
    return Device("cpu", jobs or max(1, min(cores() // threads, int(host_free() / RUN_BYTES))))


def gpu_devices(uuids: Sequence[str], jobs_per_gpu: int, need: float) -> list[Device]:
    """Return the GPUs that torch finds, given by their ``uuids``.

    Each takes up to ``jobs_per_gpu`` runs at a time, of ``need`` bytes of GPU memory, as far as memory is free now.
    """
    listed, devices = nvidia_smi(), []
    slots = max(1, min(jobs_per_gpu, int(host_free() / RUN_BYTES / max(1, len(uuids)))))
    for uuid in uuids:
        if f"GPU-{uuid}" not in listed:
            continue
        index, mode, free = listed[f"GPU-{uuid}"]
        if mode == "Exclusive_Process" and jobs_per_gpu > 1 and not MPS.exists():
            raise UserError(
                f"jobs_per_gpu: GPU {index} is in exclusive compute mode and takes one process, found "
                f"jobs_per_gpu={jobs_per_gpu}; use jobs_per_gpu=1, or have the mode set to Default (nvidia-smi -c 0)"
            )
        fitting = slots if free is None else max(1, min(slots, int(free / (MARGIN * need))))
        devices.append(Device(f"gpu {index}", fitting, {"CUDA_VISIBLE_DEVICES": f"GPU-{uuid}"}))
    return devices or [Device("gpu", slots)]  # a part of a GPU, or one that is not NVIDIA's


def host_free() -> float:
    """Return the free memory in bytes, within a container's limit."""
    free = float(psutil.virtual_memory().available)
    try:
        limit, used = ((CGROUP / name).read_text() for name in ("memory.max", "memory.current"))
        cache = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        return min(free, float(limit) - float(used) + float(cache["inactive_file"]))
    except (OSError, ValueError, KeyError):  # no container, or no limit
        return free
