"""Schemes that place the norm elsewhere, join the streams differently, or use another norm."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from ln_repro.engine.plugin.residual import Branch, Place, PostLN, PreLN


class ResiDual(PostLN):
    """Post-LN with a second stream, the sum of all branches, normalised once at the end (Xie et al. 2023)."""

    def __init__(self, width: int, dropout: float, place: Place) -> None:
        super().__init__(width, dropout, place)
        if place.last_in_stack:
            self.final = self.new_norm(width)

    def forward(self, x: Any, branch: Branch) -> Any:
        x, total = (x, x) if self.place.first_in_stack else x
        out = self.drop(branch(x))
        x, total = self.norm(x + out), total + out
        return x + self.final(total) if self.place.last_in_stack else (x, total)


class B2T(PostLN):
    """Post-LN with a connection from the layer's input to its last norm (Takase et al. 2023).

    In the decoder, this connection also skips the cross-attention.
    """

    def forward(self, x: Any, branch: Branch) -> Any:
        x, bottom = (x, x) if self.place.first_in_layer else x
        x = x + self.drop(branch(x))
        return self.norm(x + bottom) if self.place.last_in_layer else (self.norm(x), bottom)


class PeriLN(PreLN):
    """Pre-LN with another norm at the end of each branch, and one of the embeddings (Kim et al. 2025)."""

    def __init__(self, width: int, dropout: float, place: Place) -> None:
        super().__init__(width, dropout, place)
        self.after = self.new_norm(width)
        self.embedding = self.new_norm(width) if place.first_in_stack else nn.Identity()

    def forward(self, x: Tensor, branch: Branch) -> Tensor:
        x = self.embedding(x)
        return x + self.drop(self.after(branch(self.norm(x))))


class LayerNormScaling(PreLN):
    """Pre-LN whose norms in layer l are divided by sqrt(l), except the final one (Sun et al. 2025).

    Encoder and decoder are counted separately, each from 1.
    """

    def forward(self, x: Tensor, branch: Branch) -> Tensor:
        return x + self.drop(branch(self.norm(x) / math.sqrt(self.place.layer + 1)))


class MixLN(PreLN):
    """Post-LN in the first quarter of the layers, but at least in one, and Pre-LN above (Li et al. 2024).

    Encoder and decoder each begin with Post-LN.
    """

    def forward(self, x: Tensor, branch: Branch) -> Tensor:
        if self.place.layer < max(self.place.layers // 4, 1):
            return self.norm(x + self.drop(branch(x)))
        return super().forward(x, branch)


class DynamicTanh(nn.Module):
    """gamma * tanh(alpha * x) + beta for each feature, where alpha is a learnt number, initially 0.5."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.tensor(0.5))
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * torch.tanh(self.alpha * x) + self.bias


class DyT(PreLN):
    """Pre-LN with `DynamicTanh` in place of every layer norm (Zhu et al. 2025)."""

    @staticmethod
    def new_norm(width: int) -> nn.Module:
        return DynamicTanh(width)
