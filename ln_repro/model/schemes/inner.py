"""Schemes with norms inside attention and the FFN."""

import math

import torch
from torch import Tensor, nn

from ln_repro.model.residual import Branch, Place, PreLN, Residual
from ln_repro.model.sub_layers import Attention, FeedForward, SubLayer


class HeadScale(nn.Module):
    """A learnt factor for each head, initially 1."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(heads))

    def forward(self, x: Tensor) -> Tensor:
        """Scale the heads of ``x`` (time, batch, width)."""
        return (x.view(*x.shape[:-1], len(self.weight), -1) * self.weight[:, None]).flatten(-2)


class NormFormer(PreLN):
    """Pre-LN with head scales, a norm after attention, and one before the last feed-forward map (Shleifer et al. 2021).

    Cross-attention, which their language models lack, is treated like self-attention.
    """

    def __init__(self, width: int, dropout: float, place: Place) -> None:
        super().__init__(width, dropout, place)
        self.after = nn.Identity() if place.kind == "ffn" else self.new_norm(width)

    def forward(self, x: Tensor, branch: Branch) -> Tensor:
        return x + self.drop(self.after(branch(self.norm(x))))

    def inside(self, sub_layer: SubLayer) -> None:
        if isinstance(sub_layer, Attention):
            sub_layer.inner = HeadScale(sub_layer.heads)
        else:
            sub_layer.inner = self.new_norm(sub_layer.fc1.out_features)


class SubLN(PreLN):
    """Pre-LN with another norm before the last linear map of a branch, and larger initial branches (Wang et al. 2022).

    As in the authors' code (torchscale), cross-attention has neither.
    """

    def inside(self, sub_layer: SubLayer) -> None:
        if isinstance(sub_layer, FeedForward):
            sub_layer.inner = self.new_norm(sub_layer.fc1.out_features)
        elif not sub_layer.cross:
            sub_layer.inner = self.new_norm(sub_layer.out_proj.in_features)

    @staticmethod
    def gain(place: Place) -> float:
        n, m = place.encoder_layers, place.decoder_layers
        if place.kind == "cross_attn":
            return 1.0
        if place.decoder:
            return math.sqrt(math.log(3 * m))
        return math.sqrt(math.log(3 * m) * math.log(2 * n) / 3 if m else math.log(2 * n))


class HybridNorm(Residual):
    """Norms of queries, keys and values instead of one before attention, and a norm of the stream before feed-forward.

    The feed-forward maps x to y + FFN(y), y = LN(x), and a final norm follows the last layer (Zhuo et al. 2025).
    Cross-attention, which their language models lack, is treated like self-attention.
    """

    final_norm = True

    def __init__(self, width: int, dropout: float, place: Place) -> None:
        super().__init__(width, dropout, place)
        if place.kind != "ffn":
            self.norm = nn.Identity()

    def forward(self, x: Tensor, branch: Branch) -> Tensor:
        x = self.norm(x)
        return x + self.drop(branch(x))

    def inside(self, sub_layer: SubLayer) -> None:
        if isinstance(sub_layer, Attention):
            width = sub_layer.out_proj.in_features // sub_layer.heads
            sub_layer.q_norm, sub_layer.k_norm, sub_layer.v_norm = (self.new_norm(width) for _ in range(3))
