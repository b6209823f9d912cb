"""Metrics of updates, kept on the device and read together, because each read synchronises with the GPU."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from fairseq import utils
from torch import Tensor

from ln_repro.engine.plugin.tasks import per_token
from ln_repro.engine.process_group import Group


@dataclass(frozen=True)
class Update:
    """The number of an update, its learning rate, the logs of its mini-batches, and its gradient norm.

    Logs and norm are tensors on the device until they are read.
    """

    number: int
    lr: float
    logs: Sequence[Mapping[str, Tensor | float]]
    gnorm: Tensor | float


class MetricBuffer:
    """Collects updates, then reads and checks them in order.

    ``done`` is the number of updates before this session, and ``last_loss`` the loss of the last one, in bits.
    """

    def __init__(self, done: int, last_loss: float | None) -> None:
        self.last_loss = last_loss
        self.last = Update(done, math.nan, (), math.nan)
        """The last update with finite numbers."""
        self.logs: list[Mapping[str, float]] = []
        """The logs of mini-batches that were read since the last report."""
        self.unread: list[Update] = []
        """The updates whose numbers have not been read."""

    def flush(self, group: Group) -> None:
        """Read and check all unread updates; those after a divergence are dropped.

        Raises:
            FloatingPointError: a loss or a gradient is not finite; the update is not counted.
            RuntimeError: the processes have different gradients.
        """
        updates, self.unread = self.unread, []
        numbers = on_host([{"logs": update.logs, "gnorm": update.gnorm} for update in updates])
        if not group.same([values["gnorm"] for values in numbers]):
            raise RuntimeError("the processes of this run have different gradients; use GPUs of one type")
        for update, values in zip(updates, numbers, strict=True):
            if not math.isfinite(values["gnorm"]):
                raise FloatingPointError("gradients are Nan/Inf")  # fairseq's message; it skips such a step
            loss = per_token(values["logs"])["loss"]
            if not math.isfinite(loss):
                raise FloatingPointError("the loss is not finite")
            self.last = replace(update, **values)
            self.logs += values["logs"]
            self.last_loss = loss


def on_host(nested: list[Any]) -> list[Any]:
    """Return nested lists and dicts with every scalar tensor replaced by a number, in a single transfer."""
    scalars: list[Tensor] = []
    utils.apply_to_sample(scalars.append, nested)
    numbers = iter(torch.stack(scalars).tolist() if scalars else [])
    return utils.apply_to_sample(lambda _: next(numbers), nested) if nested else []
