"""Norm placement: where the layer norm stands around a residual branch (paper section 3.1, table 1).

This is the line that the paper is about. A scheme is one class here and its name in ``SCHEMES``.
"""

from collections.abc import Callable
from typing import ClassVar

from torch import Tensor, nn

Branch = Callable[[Tensor], Tensor]


class Residual(nn.Module):
    """A residual connection around a sub-layer (attention or feed-forward).

    Args:
        width: size d of the residual stream.
        dropout: rate on the branch's output.
    """

    final_norm: ClassVar[bool]
    """Whether a stack of such layers ends in a norm of its own."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor, branch: Branch) -> Tensor:
        """Return the stream after ``branch``; both (time, batch, width)."""
        raise NotImplementedError


class PostLN(Residual):
    """The original Transformer: the norm stands on the stream, after the addition."""

    final_norm = False

    def forward(self, x: Tensor, branch: Branch) -> Tensor:
        return self.norm(x + self.drop(branch(x)))


class PreLN(Residual):
    """The norm stands inside the branch; the stream itself is never normalised but at the end."""

    final_norm = True

    def forward(self, x: Tensor, branch: Branch) -> Tensor:
        return x + self.drop(branch(self.norm(x)))


SCHEMES: dict[str, type[Residual]] = {"postln": PostLN, "preln": PreLN}
