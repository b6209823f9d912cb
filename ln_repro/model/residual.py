"""Norm placement: where the layer norm is relative to a residual branch (paper section 3.1, table 1).

`Residual` is the interface of all schemes, of which the paper's two are here; the later ones are in `schemes`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from ln_repro.model.sub_layers import SubLayer

Branch = Callable[[Tensor], Tensor]
Kind = Literal["self_attn", "cross_attn", "ffn"]


@dataclass(frozen=True)
class Place:
    """The position of a residual connection in the model; an encoder-only model has 0 decoder layers."""

    decoder: bool
    encoder_layers: int
    decoder_layers: int
    layer: int = 0  # index of the layer in its stack, from 0
    kind: Kind = "self_attn"
    """The sub-layer: a layer has `self_attn`, in the decoder `cross_attn`, and `ffn`, in this order."""

    @property
    def layers(self) -> int:
        return self.decoder_layers if self.decoder else self.encoder_layers

    @property
    def sub_layers(self) -> int:
        """Number of residual connections of the stack: two per layer in the encoder, three in the decoder."""
        return (3 if self.decoder else 2) * self.layers

    @property
    def first_in_layer(self) -> bool:
        return self.kind == "self_attn"

    @property
    def last_in_layer(self) -> bool:
        return self.kind == "ffn"

    @property
    def first_in_stack(self) -> bool:
        """Whether this is the first residual connection of its stack, whose input is the embedding."""
        return self.first_in_layer and self.layer == 0

    @property
    def last_in_stack(self) -> bool:
        return self.last_in_layer and self.layer == self.layers - 1


class LayerNorm(nn.LayerNorm):
    """Layer norm in the precision of its parameters, which differs from that of a branch in mixed precision."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.to(self.weight.dtype))


class Residual(nn.Module):
    """A residual connection around a sub-layer (attention or feed-forward).

    Args:
        width: model width d.
        dropout: dropout rate of the output of the branch.
        place: its position in the model.
    """

    final_norm: ClassVar[bool] = False  # whether a stack of such layers ends with a norm

    def __init__(self, width: int, dropout: float, place: Place) -> None:
        super().__init__()
        self.place = place
        self.norm = self.new_norm(width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Any, branch: Branch) -> Any:
        """Apply ``branch`` to ``x`` (time, batch, width) with the residual connection and norm.

        A connection may return more than a tensor, which is then the ``x`` of the next one in the stack. The first one
        in the stack receives the embedding, and the last one returns a tensor.
        """
        raise NotImplementedError

    @staticmethod
    def new_norm(width: int) -> nn.Module:
        """Return a new norm of ``width`` features."""
        return LayerNorm(width)

    def inside(self, sub_layer: SubLayer) -> None:
        """Replace modules in a new sub-layer: ``inner`` and, in attention, ``q_norm``, ``k_norm`` and ``v_norm``."""

    @staticmethod
    def gain(place: Place) -> float:
        """Return the factor that initial value, output and feed-forward matrices are multiplied by."""
        return 1.0

    @staticmethod
    def embedding_gain(place: Place) -> float:
        """Return the factor that the initial embeddings of a stack are multiplied by."""
        return 1.0

    @staticmethod
    def projection(width: int, words: int) -> nn.Linear:
        """Return the linear map from the last output of the stack to the logits."""
        return nn.Linear(width, words, bias=False)

    @staticmethod
    def constrain(modules: Iterable[nn.Module]) -> None:
        """Impose constraints on the weights of a model; called after initialisation and after every update."""


class PostLN(Residual):
    """The original Transformer: layer norm after the addition."""

    def forward(self, x: Tensor, branch: Branch) -> Tensor:
        return self.norm(x + self.drop(branch(x)))


class PreLN(Residual):
    """Layer norm at the beginning of the branch, and after the last layer."""

    final_norm = True

    def forward(self, x: Tensor, branch: Branch) -> Tensor:
        return x + self.drop(branch(self.norm(x)))
