"""Schemes that place the norm elsewhere, join the streams differently, or use another norm."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from ln_repro.model.residual import Branch, Place, PostLN, PreLN


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


class SiameseNorm(PostLN):
    """A normalised and an unnormalised stream whose normalised sum is every branch's input (Li et al. 2026).

    The form is that of the authors' code for DeiT, in which, unlike in the paper's algorithm, the embedding is
    normalised where it enters the first stream, and a final norm follows the sum of the streams. In the first stream,
    branches of layer l (from 0) are divided by sqrt(n (l+1)), where n is the number of branches in a layer, 2 in the
    authors' code and 3 in a decoder (the paper has sqrt(l+1)). Cross-attention, which their models lack, is treated
    like self-attention, and encoder and decoder have two streams each. The variant of their language models, whose
    first stream is HybridNorm's, is not followed.
    """

    final_norm = True

    def __init__(self, width: int, dropout: float, place: Place) -> None:
        super().__init__(width, dropout, place)
        self.divisor = math.sqrt(place.sub_layers // place.layers * (place.layer + 1))
        self.second = self.new_norm(width)
        self.before = self.new_norm(width)
        if place.first_in_stack:
            self.embedding = self.new_norm(width)
        if place.last_in_stack:
            self.final = self.new_norm(width)

    def forward(self, x: Any, branch: Branch) -> Any:
        x, total = (self.embedding(x), x) if self.place.first_in_stack else x
        out = self.drop(branch(self.before(x + self.second(total))))
        x, total = self.norm(x + out / self.divisor), total + out
        return x + self.final(total) if self.place.last_in_stack else (x, total)


class Keel(PostLN):
    """Post-LN whose input has weight alpha, with another norm at the beginning of each branch (Chen and Wei 2026).

    Alpha is the number of residual connections, here of the stack, but 1 in the first layer, and the first connection
    has no norm after the addition (arXiv 2601.19895 v2). The paper does not mention a final norm; here is none.
    Cross-attention, which their language models lack, is treated like self-attention above the first layer; in the
    first, it has alpha = 1 and, as it is not the first connection, a norm after the addition, like the FFN.
    """

    def __init__(self, width: int, dropout: float, place: Place) -> None:
        super().__init__(width, dropout, place)
        self.alpha = place.sub_layers if place.layer else 1
        self.before = self.new_norm(width)
        if place.first_in_stack:
            self.norm = nn.Identity()

    def forward(self, x: Tensor, branch: Branch) -> Tensor:
        return self.norm(self.alpha * x + self.drop(branch(self.before(x))))


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


class DynamicErf(DynamicTanh):
    """gamma * erf(alpha * x + s) + beta for each feature; alpha and s are learnt numbers, initially 0.5 and 0."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.shift = nn.Parameter(torch.tensor(0.0))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * torch.erf(self.alpha * x + self.shift) + self.bias


class Derf(PreLN):
    """Pre-LN with `DynamicErf` in place of every layer norm (Chen et al. 2025).

    The initial values are those of the authors' code (except for GPT-2, whose alpha is an option).
    """

    @staticmethod
    def new_norm(width: int) -> nn.Module:
        return DynamicErf(width)
