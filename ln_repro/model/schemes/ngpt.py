"""nGPT: a Transformer whose stream, weights, queries and keys are unit vectors (Loshchilov et al. 2024)."""

import math
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ln_repro.model.residual import Branch, Place, Residual
from ln_repro.model.sub_layers import Attention, FeedForward, SubLayer

FIRST_RATE = 0.05  # initial share of the branch in the stream


class Factor(nn.Module):
    """Multiplication by learnt factors, initially ``initial`` (s_init).

    Adam changes the parameter, initially ``stored`` (s_scale), by about the learning rate, and the factor by
    ``initial / stored`` times as much.
    """

    def __init__(self, *shape: int, initial: float = 1.0, stored: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full(shape, stored))
        self.ratio = initial / stored

    @property
    def value(self) -> Tensor:
        return self.ratio * self.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.value * x


class UnitHeads(Factor):
    """Normalised queries or keys of each head, times sqrt(d_k) and learnt factors."""

    def forward(self, x: Tensor) -> Tensor:
        """Map (time, batch, heads, d_k) to the same. Attention divides by sqrt(d_k), where nGPT multiplies by it."""
        return super().forward(math.sqrt(x.size(-1)) * F.normalize(x.to(self.weight.dtype), dim=-1))


class Logits(nn.Linear):
    """The softmax matrix without bias, and a learnt factor for each word."""

    def __init__(self, width: int, words: int) -> None:
        super().__init__(width, words, bias=False)
        self.factor = Factor(words, stored=width**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.factor(super().forward(x))


class NGPT(Residual):
    """A step on the unit sphere from the stream towards the normalised output of the branch, without layer norms.

    Unlike the authors' language models, this one has biases, which are not normalised, positions that are added to the
    embedding, and, in place of SwiGLU, a ReLU whose output is multiplied by the factors of the hidden features.
    """

    def __init__(self, width: int, dropout: float, place: Place) -> None:
        super().__init__(width, dropout, place)
        self.norm = nn.Identity()
        self.rate = Factor(width, initial=FIRST_RATE, stored=width**-0.5)

    def forward(self, x: Tensor, branch: Branch) -> Tensor:
        if self.place.first_in_stack:
            x = F.normalize(x, dim=-1)
        out = F.normalize(self.drop(branch(x)).to(x.dtype), dim=-1)
        return F.normalize(x + self.rate.value.abs() * (out - x), dim=-1)

    def inside(self, sub_layer: SubLayer) -> None:
        if isinstance(sub_layer, Attention):
            width, heads = sub_layer.out_proj.in_features, sub_layer.heads
            sub_layer.q_norm = sub_layer.k_norm = UnitHeads(heads, width // heads, stored=width**-0.5)
        else:
            sub_layer.inner = Factor(sub_layer.fc1.out_features)

    @staticmethod
    def projection(width: int, words: int) -> nn.Linear:
        return Logits(width, words)

    @staticmethod
    @torch.no_grad()
    def constrain(modules: Iterable[nn.Module]) -> None:
        for module in modules:
            matrices: dict[nn.Embedding | nn.Linear, int] = {}  # and the dimension of their vectors
            if isinstance(module, Attention):
                matrices = {module.q_proj: 1, module.k_proj: 1, module.v_proj: 1, module.out_proj: 0}
            elif isinstance(module, FeedForward):
                matrices = {module.fc1: 1, module.fc2: 0}
            elif isinstance(module, nn.Embedding | Logits):
                matrices = {module: 1}
            for matrix, dim in matrices.items():
                matrix.weight.copy_(F.normalize(matrix.weight, dim=dim))
