"""The process group of a training run; a single process does not communicate."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TypeVar

import torch
from torch import distributed

from ln_repro.errors import UserError
from ln_repro.system.distributed import Rank

Shared = TypeVar("Shared")
TIMEOUT = timedelta(hours=12)
"""How long the other processes wait for the first one to prepare a corpus; if one fails, torchrun stops all."""


class Group:
    """The processes of a run; ``rank`` is that of this one."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        if rank.size > 1:
            backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
            distributed.init_process_group(backend, timeout=TIMEOUT)

    def use_gpu(self) -> None:
        """Use the GPU whose number is this process's local rank, if there are GPUs and several processes."""
        if self.rank.size == 1 or not torch.cuda.is_available():
            return
        if self.rank.local >= (gpus := torch.cuda.device_count()):
            raise UserError(
                f"--nproc-per-node: process {self.rank.local + 1} has no GPU of its own: torch finds {gpus} on this "
                f"machine; use --nproc-per-node={gpus}, or train.device=cpu"
            )
        torch.cuda.set_device(self.rank.local)

    def share(self, value: Shared) -> Shared:
        """Return the first process's ``value`` in every process."""
        values = [value]
        if self.rank.size > 1:
            distributed.broadcast_object_list(values, src=0, device=torch.device("cpu"))
        return values[0]

    def any(self, flag: bool) -> bool:
        """Return, in every process, whether ``flag`` is set in at least one of them."""
        if self.rank.size == 1:
            return flag
        flags = torch.tensor(int(flag))
        distributed.all_reduce(flags, distributed.ReduceOp.MAX)
        return bool(flags)

    def same(self, values: Sequence[float]) -> bool:
        """Return whether all processes have the same numbers, up to a relative difference of 1e-6."""
        if self.rank.size == 1:
            return True
        numbers = torch.tensor(values, dtype=torch.double).nan_to_num()
        extremes = torch.stack([numbers, -numbers])  # one reduction gives the maximum and minus the minimum
        distributed.all_reduce(extremes, distributed.ReduceOp.MAX)
        largest, smallest = extremes[0], -extremes[1]
        return bool((largest - smallest <= 1e-6 * largest.abs()).all())

    def close(self) -> None:
        """Wait for all processes, so that none exits while the first one saves, and leave the group."""
        if self.rank.size > 1:
            with suppress(RuntimeError):  # another process failed, and reports it
                distributed.barrier()
            distributed.destroy_process_group()
