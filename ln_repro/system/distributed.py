"""The place of this process among others: in a run on several GPUs, and of a run in a stack.

torchrun starts a process per GPU. The first one works as without torchrun. The others only train, with the inputs of
the first process's trainer (`ln_repro.engine.process_group`).
"""

import os
from dataclasses import dataclass

ONE_BY_ONE = "the runs go on one by one"  # what the log of a stack says if its runs cannot be trained as one
STACK_SOCKET = "LN_REPRO_STACK_SOCKET"
"""Variable for the descriptor of a run's socket to the process that trains it together with others."""


@dataclass(frozen=True)
class Rank:
    """The index of a process, the number of processes, and its index on its machine, which is also its GPU's."""

    index: int = 0
    size: int = 1
    local: int = 0

    @property
    def leads(self) -> bool:
        """Whether this is the first process."""
        return self.index == 0


def this_rank() -> Rank:
    """Return the rank assigned by torchrun; without torchrun, that of a single process."""
    if not {"TORCHELASTIC_RUN_ID", "RANK"} <= os.environ.keys():
        return Rank()
    return Rank(*(int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")))
