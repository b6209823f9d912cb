"""Schemes with a weight on the stream or on the branch, learnt or as part of the initialisation."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ln_repro.model.residual import Branch, Place, Residual


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
    """Admin as published: omega is initially the standard deviation of the sum of all earlier outputs (`measure`)."""


@torch.no_grad()
def measure(model: nn.Module, forward: Callable[[], object]) -> None:
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

    def __init__(self, width: int, dropout: float, place: Place) -> None:
        super().__init__(width, dropout, place)
        self.norm = nn.Identity()

    def forward(self, x: Tensor, branch: Branch) -> Tensor:
        return x + self.drop(branch(x))

    @staticmethod
    def gain(place: Place) -> float:
        return (9 * place.layers) ** -0.25 if place.decoder else 0.67 * place.layers**-0.25

    @staticmethod
    def embedding_gain(place: Place) -> float:
        return (9 * place.layers) ** -0.25
