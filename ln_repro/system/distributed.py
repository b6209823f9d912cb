"""One training run in several processes, one a GPU, as torchrun starts them on one machine or many.

torchrun starts `ln-repro run` once a GPU. The first of them leads: it is the command as without torchrun. The others
only train: they get the trainer's arguments from the first (`ln_repro.engine.group`).
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Rank:
    """Which process of how many; ``local`` is its number, and so its GPU, on its machine."""

    index: int = 0
    size: int = 1
    local: int = 0

    @property
    def leads(self) -> bool:
        """Whether this process prepares, writes, decodes and records."""
        return self.index == 0


def this_rank(environment: Mapping[str, str] = os.environ) -> Rank:
    """Return what torchrun made of this process; outside it, the only one."""
    if "TORCHELASTIC_RUN_ID" not in environment:
        return Rank()
    return Rank(*(int(environment[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")))
