"""The trainers of one run talking to each other. With one process every call is free."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import torch
from torch import distributed

from ln_repro.system.distributed import Rank

PATIENCE = timedelta(hours=12)
"""How long processes wait for the first one, which may be preparing a corpus. torchrun ends them when one fails."""


class Group:
    """The processes of a run, `ranks.Rank` by number."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        if rank.size > 1:
            if torch.cuda.is_available():
                torch.cuda.set_device(rank.local)
            backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
            distributed.init_process_group(backend, timeout=PATIENCE)

    def share(self, value: Any = None) -> Any:
        """Return what the first process gives."""
        values = [value]
        if self.rank.size > 1:
            distributed.broadcast_object_list(values, src=0, device=torch.device("cpu"))
        return values[0]

    def any(self, flag: bool) -> bool:
        """Return whether the flag is up in any process: all get the same answer at the same update."""
        if self.rank.size == 1:
            return flag
        flags = torch.tensor(int(flag))
        distributed.all_reduce(flags, distributed.ReduceOp.MAX)
        return bool(flags)

    def same(self, values: Sequence[float]) -> bool:
        """Return whether all processes have these numbers, to a millionth of each."""
        if self.rank.size == 1:
            return True
        own = torch.tensor(values, dtype=torch.double).nan_to_num()
        most = torch.stack([own, -own])
        distributed.all_reduce(most, distributed.ReduceOp.MAX)
        return bool((most.sum(dim=0) <= 1e-6 * most[0].abs()).all())

    def close(self) -> None:
        """Wait until all are here, so that none is gone while the first still saves."""
        if self.rank.size > 1:
            with suppress(RuntimeError):  # another one failed, and says so itself
                distributed.barrier()
            distributed.destroy_process_group()
