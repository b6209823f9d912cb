"""The rank of this process in a run that torchrun starts with one process per GPU.

The first process does all that it does without torchrun. The others only train, with the trainer's arguments of the
first (`ln_repro.engine.group`).
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Rank:
    """The number of a process, the number of processes, and its number on its machine, which is that of its GPU."""

    index: int = 0
    size: int = 1
    local: int = 0

    @property
    def leads(self) -> bool:
        """Whether this is the first process."""
        return self.index == 0


def this_rank(environment: Mapping[str, str] = os.environ) -> Rank:
    """Return the rank that torchrun gave to this process; without torchrun, that of a single one."""
    if "TORCHELASTIC_RUN_ID" not in environment:
        return Rank()
    return Rank(*(int(environment[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")))
