"""Norm placement: where the layer norm is relative to a residual branch (paper section 3.1, table 1).

Each scheme, of the paper or later, is a class with a name in ``SCHEMES``.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

Branch = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Place:
    """The position of a residual connection in the model, which has no decoder layers if it is an encoder alone."""

    decoder: bool
    encoder_layers: int
    decoder_layers: int

    @property
    def sub_layers(self) -> int:
        """Number of residual connections of the stack: two per layer in the encoder, three in the decoder."""
        return 3 * self.decoder_layers if self.decoder else 2 * self.encoder_layers


class Residual(nn.Module):
    """A residual connection around a sub-layer (attention or feed-forward).

    Args:
        width: model width d.
        dropout: dropout rate of the output of the branch.
        place: its position in the model.
    """

    final_norm: ClassVar[bool] = False
    """Whether a stack of such layers ends with a layer norm."""
    measured: ClassVar[bool] = False
    """Whether a forward pass initialises the connections (see `measuring`)."""

    def __init__(self, width: int, dropout: float, place: Place) -> None:
        super().__init__()
        self.norm: nn.Module = nn.LayerNorm(width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor, branch: Branch) -> Tensor:
        """Apply ``branch`` to ``x`` (time, batch, width) with the residual connection and norm."""
        raise NotImplementedError

    @staticmethod
    def gain(place: Place) -> float:
        """Return the factor that initial value, output and feed-forward matrices are multiplied by."""
        return 1.0

    @classmethod
    def measuring(cls, residuals: Sequence["Residual"]) -> AbstractContextManager[None]:
        """Return a context in which a forward pass initialises the residual connections of a stack, given in order."""
        raise NotImplementedError


class PostLN(Residual):
    """The original Transformer: layer norm after the addition."""

    def forward(self, x: Tensor, branch: Branch) -> Tensor:
        return self.norm(x + self.drop(branch(x)))


class PreLN(Residual):
    """Layer norm at the beginning of the branch, and after the last layer."""

    final_norm = True

    def forward(self, x: Tensor, branch: Branch) -> Tensor:
        return x + self.drop(branch(self.norm(x)))


class DeepNorm(Residual):
    """Post-LN whose input has weight alpha and whose branches have gain beta, by depth (Wang et al. 2022, table 1)."""

    def __init__(self, width: int, dropout: float, place: Place) -> None:
        super().__init__(width, dropout, place)
        self.alpha = self.constants(place)[0]

    def forward(self, x: Tensor, branch: Branch) -> Tensor:
        return self.norm(self.alpha * x + self.drop(branch(x)))

    @staticmethod
    def constants(place: Place) -> tuple[float, float]:
        """Return alpha and beta."""
        n, m = place.encoder_layers, place.decoder_layers
        if place.decoder:
            return (3 * m) ** 0.25, (12 * m) ** -0.25
        if not m:
            return (2 * n) ** 0.25, (8 * n) ** -0.25
        return 0.81 * (n**4 * m) ** 0.0625, 0.87 * (n**4 * m) ** -0.0625

    @staticmethod
    def gain(place: Place) -> float:
        return DeepNorm.constants(place)[1]


class ReZero(Residual):
    """No norm, and a learnt weight of the branch that is initially zero (Bachlechner et al. 2020)."""

    def __init__(self, width: int, dropout: float, place: Place) -> None:
        super().__init__(width, dropout, place)
        self.norm = nn.Identity()
        self.alpha = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor, branch: Branch) -> Tensor:
        return x + self.alpha * self.drop(branch(x))


class AdminClosed(Residual):
    """Post-LN with a learnt weight omega for each feature of the input (Liu et al. 2020, form of their later package).

    Initially omega^2 = (K+1) / ln(K+1) - 1, for K sub-layers in the stack.
    """

    def __init__(self, width: int, dropout: float, place: Place) -> None:
        super().__init__(width, dropout, place)
        above = place.sub_layers + 1
        self.omega = nn.Parameter(torch.full((width,), math.sqrt(above / math.log(above) - 1)))

    def forward(self, x: Tensor, branch: Branch) -> Tensor:
        return self.norm(self.omega * x + self.drop(branch(x)))


class Admin(AdminClosed):
    """The same, where omega is initially the standard deviation of all earlier outputs on a mini-batch."""

    measured = True

    @classmethod
    @contextmanager
    def measuring(cls, residuals: Sequence[Residual]) -> Iterator[None]:
        deviation = 1.0

        def measure(residual: nn.Module, given: tuple[Tensor, Branch]) -> None:
            nonlocal deviation
            x, branch = given
            omega = residual.get_parameter("omega")
            omega.fill_(deviation)
            deviation = math.sqrt((omega * x).var() + branch(x).var())

        hooks = [residual.register_forward_pre_hook(measure) for residual in residuals]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


SCHEMES: dict[str, type[Residual]] = {
    "postln": PostLN,
    "preln": PreLN,
    "deepnorm": DeepNorm,
    "rezero": ReZero,
    "admin": Admin,
    "admin_closed": AdminClosed,
}
