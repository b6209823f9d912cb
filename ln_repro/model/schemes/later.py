"""The schemes that followed the paper's two: other places of the norm, other norms, and weights of the branch."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ln_repro.model.residual import Branch, Place, PostLN, PreLN, Residual
from ln_repro.model.sub_layers import Attention, FeedForward, SubLayer


class DeepNorm(Residual):
    """Post-LN whose input has weight alpha and whose branches have gain beta, by depth (Wang et al. 2022, table 1)."""

    def forward(self, x: Tensor, branch: Branch) -> Tensor:
        alpha, _ = self.constants(self.place)
        return self.norm(alpha * x + self.drop(branch(x)))

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
        return x + self.alpha * self.drop(branch(x)).to(x.dtype)


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
    """Admin as published: omega is initially the standard deviation of the sum of all earlier outputs."""


@torch.no_grad()
def initialise_admin(model: nn.Module, forward: Callable[[], object]) -> None:
    """Initialise `Admin` in a new model from a mini-batch without dropout, which ``forward`` passes through the model.

    Other schemes do not need it.
    """
    deviations = {"encoder": 1.0, "decoder": 1.0}

    def initialise(admin: Admin, inputs: tuple[Tensor, Branch]) -> None:
        x, branch = inputs
        stack = "decoder" if admin.place.decoder else "encoder"
        admin.omega.fill_(deviations[stack])
        deviations[stack] = math.sqrt((admin.omega * x).var() + branch(x).var())

    hooks = [module.register_forward_pre_hook(initialise) for module in model.modules() if isinstance(module, Admin)]
    if hooks:
        model.eval()
        forward()
        model.train()
    for hook in hooks:
        hook.remove()


class TFixup(Residual):
    """No norm; smaller initial branches and embeddings, by depth (Huang et al. 2020).

    The factors of an encoder-only model are those of the encoder.
    """

    new_norm = nn.Identity

    def forward(self, x: Tensor, branch: Branch) -> Tensor:
        return x + self.drop(branch(x))

    @staticmethod
    def gain(place: Place) -> float:
        return (9 * place.layers) ** -0.25 if place.decoder else 0.67 * place.layers**-0.25

    @staticmethod
    def embedding_gain(place: Place) -> float:
        return (9 * place.layers) ** -0.25


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

    new_norm = DynamicTanh


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

    new_norm = DynamicErf


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
