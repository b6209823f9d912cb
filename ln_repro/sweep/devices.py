"""Where the runs of a local sweep go: the machine's cores or its GPUs, as many to each as its memory holds.

How much a run needs is measured on those at work, so the first ones tell how many can follow. How many a GPU is best
given is measured too (`ln_repro.sweep.packing`); a core is given one.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from ln_repro.sweep.packing import Packing
from ln_repro.system.subprocesses import cores

GIGABYTE = 1e9
HOST_GUESS, GPU_GUESS = 1 * GIGABYTE, 6 * GIGABYTE
"""What a run is taken to need until those at work need more."""
MARGIN = 1.2
CGROUP = Path("/sys/fs/cgroup")


@dataclass
class Memory:
    """A memory that runs share, in bytes: what is ``free``, and what processes have ``taken``."""

    free: Callable[[], float]
    taken: Callable[[Iterable[int]], float]
    need: float
    """Of one run, as far as we know."""

    def has_room(self, running: Iterable[int]) -> bool:
        """Return whether one more run fits once those at work (process ids) have grown to what they need."""
        pids = list(running)
        if not pids:
            return True
        taken = self.taken(pids)
        self.need = max(self.need, taken / len(pids))
        growing = max(0.0, self.need * len(pids) - taken)
        return self.free() - growing >= self.need * MARGIN


@dataclass
class Place:
    """Takes as many runs at a time as ``packing`` says; ``environment`` is what leads a run there."""

    name: str
    packing: Packing
    memories: list[Memory]
    environment: Mapping[str, str] = field(default_factory=dict)

    def has_room(self, here: Iterable[int]) -> bool:
        """Return whether one more run can start beside those that are here (process ids)."""
        pids = list(here)
        room = [memory.has_room(pids) for memory in self.memories]  # each takes its measure
        return len(pids) < self.packing.runs and all(room)


def places(on_gpu: bool, threads: int, jobs: int | None, jobs_per_gpu: int | None, first: int = 1) -> list[Place]:
    """Return the places of this machine: one a GPU, or its cores, ``threads`` of them a run.

    A GPU begins with ``first`` runs, and takes no more than there are cores for.
    """
    host = Memory(host_free, host_taken, HOST_GUESS)
    if not on_gpu:
        return [Place("cpu", Packing.fixed(jobs or max(1, cores() // threads)), [host])]
    found = gpus()
    if not found:  # torch sees one, but nothing tells its memory: not NVIDIA's
        return [Place("gpu", Packing.fixed(jobs_per_gpu or 1), [host])]
    most = max(1, cores() // threads // len(found))
    return [
        Place(
            f"gpu {gpu}",
            Packing.fixed(jobs_per_gpu) if jobs_per_gpu else Packing(most, first),
            [gpu_memory(gpu), host],
            {"CUDA_VISIBLE_DEVICES": gpu, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        )
        for gpu in found
    ]


def host_free() -> float:
    """Return the bytes of memory that can be taken here, a container's limit considered."""
    free = float(psutil.virtual_memory().available)
    try:
        limit, used = ((CGROUP / name).read_text() for name in ("memory.max", "memory.current"))
        cache = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        return min(free, float(limit) - float(used) + float(cache["inactive_file"]))
    except (OSError, ValueError, KeyError):  # no such limit
        return free


def host_taken(pids: Iterable[int]) -> float:
    """Return the resident bytes of processes and all that they started; memory they share counts for each."""
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
    """Return the numbers of NVIDIA's GPUs that we may use; none where its tool is not there."""
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    listed = [row for row in _ask("index,uuid") if len(row) == 2]
    if allowed is None:
        return [index for index, _ in listed]
    wanted = [name.strip() for name in allowed.split(",")]
    return [index for index, uuid in listed if index in wanted or any(w and uuid.startswith(w) for w in wanted)]


def gpu_memory(gpu: str) -> Memory:
    """Return the memory of a GPU; what runs have taken is what has gone since now."""

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
    return (
        [[part.strip() for part in line.split(",")] for line in asked.stdout.splitlines()]
        if asked.returncode == 0
        else []
    )
