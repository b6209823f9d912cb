"""What updates leave on the device: read all at once, since every look makes a GPU wait."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from fairseq import utils
from torch import Tensor

from ln_repro.engine.group import Group
from ln_repro.engine.plugin.task import Sums

Number = Tensor | float
"""On the device, or read."""


@dataclass(frozen=True)
class Update:
    """One update: its number, its learning rate, what its mini-batches logged, and the norm of its gradient."""

    number: int
    lr: float
    logs: Sequence[Mapping[str, Number]]
    gnorm: Number


class MetricBuffer:
    """Checks every update in order, however many are read at once, and adds up the losses of a window.

    Args:
        done: updates of an earlier session.
        last_loss: of the last update, in bits.
    """

    def __init__(self, done: int, last_loss: float | None) -> None:
        self.last_loss = last_loss
        self.last = Update(done, math.nan, (), math.nan)
        """The last update that counts."""
        self.sums = Sums()
        self.unread: list[Update] = []

    def add(self, update: Update) -> None:
        """Take note of an update; nothing is read."""
        self.unread.append(update)

    def flush(self, group: Group) -> None:
        """Read all that has been left, and check it. Whatever came after an update that ends the run is forgotten.

        Raises:
            FloatingPointError: a loss or a gradient is not finite; such a loss does not count.
            RuntimeError: the processes have drifted apart.
        """
        updates, self.unread = self.unread, []
        numbers = on_host([{"logs": update.logs, "gnorm": update.gnorm} for update in updates])
        if not group.same([its["gnorm"] for its in numbers]):
            raise RuntimeError("the processes of this run have different gradients: are their GPUs of different kinds?")
        for update, its in zip(updates, numbers, strict=True):
            self._check(replace(update, **its))

    def _check(self, update: Update) -> None:
        if not math.isfinite(update.gnorm):
            raise FloatingPointError("gradients are Nan/Inf")  # fairseq's words, and it takes no such step
        self.last = update
        losses = Sums(update.logs).per_token()
        if not math.isfinite(losses["loss"]):
            raise FloatingPointError("the loss is not finite")
        for log in update.logs:
            self.sums.add(log)
        self.last_loss = losses["loss"]


def on_host(nested: list[Any]) -> list[Any]:
    """Return the same lists and dicts with every tensor of one number read, all by a single transfer."""
    found: list[Tensor] = []
    utils.apply_to_sample(found.append, nested)
    numbers = iter(torch.stack(found).tolist() if found else [])
    return utils.apply_to_sample(lambda _: next(numbers), nested) if nested else []
