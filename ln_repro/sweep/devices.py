"""The devices of a local sweep, the machine's cores or its GPUs, and how many runs fit on each at a time.

The memory that a run needs is measured on those that are running, so the first runs decide whether more can start.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from ln_repro.system.subprocesses import cores

GIGABYTE = 1e9
HOST_GUESS, GPU_GUESS = 1 * GIGABYTE, 6 * GIGABYTE
"""Memory assumed per run until one is measured to need more, in bytes."""
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


def local_devices(on_gpu: bool, threads: int, jobs: int | None, jobs_per_gpu: int) -> list[Device]:
    """Return the devices of this machine.

    Args:
        on_gpu: whether runs use the GPUs, ``jobs_per_gpu`` each as far as memory allows, or the cores.
        threads: cores per run.
        jobs: runs at a time on the CPU; None for one per ``threads`` cores.
        jobs_per_gpu: runs at a time on each GPU.
    """
    host = Memory(host_free, host_taken, HOST_GUESS)
    if not on_gpu:
        return [Device("cpu", jobs or max(1, cores() // threads), [host])]
    found = gpus()
    if not found:  # torch sees a GPU that is not NVIDIA's, whose memory is not known
        return [Device("gpu", jobs_per_gpu, [host])]
    return [
        Device(
            f"gpu {gpu}",
            jobs_per_gpu,
            [gpu_memory(gpu), host],
            {"CUDA_VISIBLE_DEVICES": gpu, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        )
        for gpu in found
    ]


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


def gpus() -> list[str]:
    """Return the indices of the NVIDIA GPUs that CUDA_VISIBLE_DEVICES allows; none without `nvidia-smi`."""
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    listed = [row for row in _ask("index,uuid") if len(row) == 2]
    if allowed is None:
        return [index for index, _ in listed]
    wanted = [name.strip() for name in allowed.split(",")]
    return [index for index, uuid in listed if index in wanted or any(w and uuid.startswith(w) for w in wanted)]


def gpu_memory(gpu: str) -> Memory:
    """Return the memory of a GPU; the runs have taken what is less free than at this call."""

    def free() -> float:
        return next((float(row[0]) * 2**20 for row in _ask("memory.free", gpu)), 0.0)

    idle = free()
    return Memory(free, lambda pids: max(0.0, idle - free()), GPU_GUESS)


def _ask(fields: str, gpu: str | None = None) -> list[list[str]]:
    """Return the rows of ``nvidia-smi``'s answer."""
    if not shutil.which("nvidia-smi"):
        return []
    chosen = [] if gpu is None else [f"--id={gpu}"]
    command = ["nvidia-smi", *chosen, f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = asked.stdout.splitlines() if asked.returncode == 0 else []
    return [[part.strip() for part in line.split(",")] for line in lines]
