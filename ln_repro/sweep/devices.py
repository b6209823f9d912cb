"""The devices of a local sweep, the machine's cores or its GPUs, and how many runs fit on each at a time.

The memory that a run needs is measured on those that are running, so the first runs decide whether more can start.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import psutil

from ln_repro.errors import UserError
from ln_repro.system.subprocesses import cores

GIGABYTE = 1e9
HOST_GUESS = 1 * GIGABYTE
"""Main memory assumed per run until one is measured to need more, in bytes."""
SMI_SECONDS = 5.0
"""How long an answer of `nvidia-smi` is used."""
MPS = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", Path("/tmp", "nvidia-mps")))
"""The folder of CUDA's Multi-Process Service, with which processes share a GPU in exclusive compute mode."""
MARGIN = 1.2
CGROUP = Path("/sys/fs/cgroup")


@dataclass
class Memory:
    """Memory that runs share, in bytes: how much is ``free``, and how much some processes have ``taken``."""

    free: Callable[[], float]
    taken: Callable[[Iterable[int]], float]
    need: float
    """The most that one run was measured to take."""

    def has_room(self, running: Iterable[int]) -> bool:
        """Return whether one more run fits once those running (process ids) have grown to their full size."""
        pids = list(running)
        if not pids:
            return True
        taken = self.taken(pids)
        self.need = max(self.need, taken / len(pids))
        growing = max(0.0, self.need * len(pids) - taken)
        return self.free() - growing >= self.need * MARGIN


@dataclass
class Device:
    """Takes up to ``slots`` runs at a time; ``environment`` directs a run to it."""

    name: str
    slots: int
    memories: list[Memory]
    environment: Mapping[str, str] = field(default_factory=dict)

    def has_room(self, running: Iterable[int]) -> bool:
        """Return whether one more run can start beside those that run there (process ids)."""
        pids = list(running)
        room = [memory.has_room(pids) for memory in self.memories]  # a list, so that every memory is measured
        return len(pids) < self.slots and all(room)


def cpu_device(threads: int, jobs: int | None) -> Device:
    """Return the cores of this machine, for ``jobs`` runs at a time, by default one per ``threads`` cores."""
    return Device("cpu", jobs or max(1, cores() // threads), [Memory(host_free, host_taken, HOST_GUESS)])


def gpu_devices(uuids: Sequence[str], jobs_per_gpu: int, need: float) -> list[Device]:
    """Return the GPUs of this machine.

    Args:
        uuids: of the GPUs that torch finds.
        jobs_per_gpu: runs at a time on each GPU, as far as memory allows.
        need: GPU memory assumed per run until one is measured to need more, in bytes.
    """
    host, listed, devices = Memory(host_free, host_taken, HOST_GUESS), nvidia_smi(), []
    for uuid in uuids:
        if (found := listed.get(f"GPU-{uuid}")) is None:
            continue
        if found.mode == "Exclusive_Process" and jobs_per_gpu > 1 and not MPS.exists():
            raise UserError(
                f"jobs_per_gpu: GPU {found.index} is in exclusive compute mode and takes one process, found "
                f"jobs_per_gpu={jobs_per_gpu}; use jobs_per_gpu=1, or have the mode set to Default (nvidia-smi -c 0)"
            )
        memories = [host] if found.free is None else [gpu_memory(f"GPU-{uuid}", need), host]
        devices.append(Device(f"gpu {found.index}", jobs_per_gpu, memories, {"CUDA_VISIBLE_DEVICES": f"GPU-{uuid}"}))
    return devices or [Device("gpu", jobs_per_gpu, [host])]  # a part of a GPU, or one that is not NVIDIA's


def host_free() -> float:
    """Return the free memory in bytes, within a container's limit."""
    free = float(psutil.virtual_memory().available)
    try:
        limit, used = ((CGROUP / name).read_text() for name in ("memory.max", "memory.current"))
        cache = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        return min(free, float(limit) - float(used) + float(cache["inactive_file"]))
    except (OSError, ValueError, KeyError):  # no container, or no limit
        return free


def host_taken(pids: Iterable[int]) -> float:
    """Return the resident bytes of processes and their descendants; shared memory counts for each of them."""
    total = 0.0
    for pid in pids:
        try:
            process = psutil.Process(pid)
            family = [process, *process.children(recursive=True)]
        except psutil.Error:
            continue
        for member in family:
            try:
                total += member.memory_info().rss
            except psutil.Error:
                continue
    return total


def gpu_memory(uuid: str, need: float) -> Memory:
    """Return the memory of a GPU; the runs have taken what is less free than at this call."""

    def free() -> float:
        found = nvidia_smi().get(uuid)
        return found.free or 0.0 if found else 0.0

    idle = free()
    return Memory(free, lambda pids: max(0.0, idle - free()), need)


@dataclass(frozen=True)
class SmiRow:
    """What `nvidia-smi` reports of a GPU: its index, compute mode, and free memory in bytes, None if not known."""

    index: str
    mode: str
    free: float | None


def nvidia_smi() -> dict[str, SmiRow]:
    """Return the rows of `nvidia-smi` by UUID, at most `SMI_SECONDS` old; none without it."""
    return _ask(int(time.monotonic() // SMI_SECONDS))


@lru_cache(maxsize=1)
def _ask(period: int) -> dict[str, SmiRow]:
    if not shutil.which("nvidia-smi"):
        return {}
    command = ["nvidia-smi", "--query-gpu=uuid,index,compute_mode,memory.free", "--format=csv,noheader,nounits"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = [[part.strip() for part in line.split(",")] for line in answer.stdout.splitlines()]
    return {
        uuid: SmiRow(index, mode, float(free) * 2**20 if free.isdecimal() else None)
        for uuid, index, mode, free in (row for row in rows if len(row) == 4)
    }
