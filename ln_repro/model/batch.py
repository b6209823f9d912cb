"""The types of what a training loop passes around; fairseq's own classes have none."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, Self

from torch import Tensor, nn

from ln_repro.model.layers import Stack

Batch = dict[str, Any]
"""A mini-batch: the arguments ``net_input`` of the model, the ``target``, its number ``ntokens`` and the examples' ids;
empty without examples."""
Log = Mapping[str, Tensor | float]
"""Sums over a mini-batch: ``loss``, ``nll_loss``, ``sample_size`` and further ones of a task."""


class Model(Protocol):
    """A model with stacks of layers, by name."""

    @property
    def stacks(self) -> dict[str, Stack]: ...

    def __call__(self, **inputs: Tensor) -> tuple[Tensor, None]: ...

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def eval(self) -> Self: ...

    def train(self) -> Self: ...


Criterion = Callable[[Model, Batch], tuple[Tensor, int, Log]]
"""Returns the loss, the number of target tokens, and the log."""
