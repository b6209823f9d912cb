"""Norm placement: where the layer norm stands around a residual branch (paper section 3.1, table 1).

This is the line that the paper is about, and most of what followed it. A scheme is one class here and its name in
``SCHEMES``; what it needs to know of the model is its `Place`.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

Branch = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Place:
    """The stack that a residual connection stands in, and how deep the model is.

    Args:
        decoder: in the decoder, or in the encoder.
        encoder_layers: N.
        decoder_layers: M; 0 if the encoder stands alone.
    """

    decoder: bool
    encoder_layers: int
    decoder_layers: int

    @property
    def sub_layers(self) -> int:
        """Residual connections of the stack: two a layer in the encoder, three in the decoder."""
        return 3 * self.decoder_layers if self.decoder else 2 * self.encoder_layers


class Residual(nn.Module):
    """A residual connection around a sub-layer (attention or feed-forward).

    Args:
        width: size d of the residual stream.
        dropout: rate on the branch's output.
        place: where it stands.
    """

    final_norm: ClassVar[bool] = False
    """Whether a stack of such layers ends in a norm of its own."""

    def __init__(self, width: int, dropout: float, place: Place) -> None:
        super().__init__()
        self.norm: nn.Module = nn.LayerNorm(width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor, branch: Branch) -> Tensor:
        """Return the stream after ``branch``; both (time, batch, width)."""
        raise NotImplementedError

    @staticmethod
    def gain(place: Place) -> float:
        """Return what the scheme multiplies the branches' initial value, output and feed-forward matrices by."""
        return 1.0

    @classmethod
    @contextmanager
    def measuring(cls, residuals: Sequence["Residual"]) -> Iterator[None]:
        """Let the connections of a stack, in their order, set themselves by a first mini-batch that passes."""
        yield


class PostLN(Residual):
    """The original Transformer: the norm stands on the stream, after the addition."""

    def forward(self, x: Tensor, branch: Branch) -> Tensor:
        return self.norm(x + self.drop(branch(x)))


class PreLN(Residual):
    """The norm stands inside the branch; the stream itself is never normalised but at the end."""

    final_norm = True

    def forward(self, x: Tensor, branch: Branch) -> Tensor:
        return x + self.drop(branch(self.norm(x)))


class DeepNorm(Residual):
    """Post-LN with a heavier stream and lighter initial branches, by depth (Wang et al. 2022, table 1)."""

    def __init__(self, width: int, dropout: float, place: Place) -> None:
        super().__init__(width, dropout, place)
        self.alpha = self.constants(place)[0]

    def forward(self, x: Tensor, branch: Branch) -> Tensor:
        return self.norm(self.alpha * x + self.drop(branch(x)))

    @staticmethod
    def constants(place: Place) -> tuple[float, float]:
        """Return alpha and beta, the stream's weight and the gain of the branches."""
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
    """No norm: a branch enters with a learnt weight that starts at zero (Bachlechner et al. 2020)."""

    def __init__(self, width: int, dropout: float, place: Place) -> None:
        super().__init__(width, dropout, place)
        self.norm = nn.Identity()
        self.alpha = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor, branch: Branch) -> Tensor:
        return x + self.alpha * self.drop(branch(x))


class AdminClosed(Residual):
    """Post-LN with a learnt weight a feature on the stream, from the depth (Liu et al. 2020, their later package).

    omega^2 = (K+1) / ln(K+1) - 1, for K sub-layers in the stack.
    """

    def __init__(self, width: int, dropout: float, place: Place) -> None:
        super().__init__(width, dropout, place)
        above = place.sub_layers + 1
        self.omega = nn.Parameter(torch.full((width,), math.sqrt(above / math.log(above) - 1)))

    def forward(self, x: Tensor, branch: Branch) -> Tensor:
        return self.norm(self.omega * x + self.drop(branch(x)))


class Admin(AdminClosed):
    """The same with omega from a first mini-batch (Liu et al. 2020).

    omega is the standard deviation that the stream and the branches before this one have gathered.
    """

    @classmethod
    @contextmanager
    def measuring(cls, residuals: Sequence[Residual]) -> Iterator[None]:
        gathered = 1.0

        def measure(residual: nn.Module, given: tuple[Tensor, Branch]) -> None:
            nonlocal gathered
            x, branch = given
            omega = residual.get_parameter("omega")
            omega.fill_(gathered)
            gathered = math.sqrt((omega * x).var() + branch(x).var())

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
