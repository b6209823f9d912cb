"""Schemes of this project, which test why the tokens of a Post-LN encoder collapse without warm-up."""

from typing import Any, ClassVar

from torch import Tensor

from ln_repro.model.residual import Branch, Kind, Residual

DISTINCT: dict[Kind, float] = {"self_attn": 0.35, "ffn": 0.63}
"""Root mean square of a centred branch of Post-LN over that of the whole branch: on toy, before training, with dropout;
root mean square over the layers. Part of it is the noise of dropout, which differs between tokens.
"""
SIGNAL: dict[Kind, float] = {"self_attn": 0.09, "ffn": 0.47}  # the same ratio without dropout


class Centred(Residual):
    """Post-LN whose encoder's branches are centred: without their mean over the tokens of a sentence.

    So no branch can move all tokens by the same vector. The decoder is that of Post-LN, as the mean over a target
    sentence would show it the words that it predicts. (Ali et al. 2023 centre attention, against its smoothing.)
    """

    forward_pass: ClassVar[bool] = True  # whether the forward pass is without the mean
    gradient: ClassVar[bool] = True  # whether the gradient is: if so, a branch does not learn to change the mean
    factors: ClassVar[dict[Kind, float]] = {}  # constant factors of the encoder's branches

    def forward(self, x: Any, branch: Branch) -> Any:
        if self.place.decoder:
            return self.norm(x + self.drop(branch(x)))
        if self.place.first_in_stack:
            x = x, x.ne(0).any(-1, keepdim=True)  # the embedding of padding is 0
        x, real = x
        change = self.factors.get(self.place.kind, 1.0) * self.drop(branch(x)).to(x.dtype)
        shared = (change * real).sum(0) / real.sum(0)
        change = change - (shared if self.gradient else shared.detach())
        if not self.forward_pass:
            change = change + shared.detach()
        out: Tensor = self.norm(x + change)
        return out if self.place.last_in_stack else (out, real)


class CentredForward(Centred):
    """Centred in the forward pass alone."""

    gradient: ClassVar[bool] = False


class CentredGradient(Centred):
    """Post-LN in the forward pass; the gradient of the encoder's branches is centred."""

    forward_pass: ClassVar[bool] = False


class CentredFull(Centred):
    """Centred, with branches that, before training, are as large as those of Post-LN."""

    factors: ClassVar[dict[Kind, float]] = {"self_attn": 1 / DISTINCT["self_attn"], "ffn": 1 / DISTINCT["ffn"]}


class Shrunk(Residual):
    """Post-LN whose encoder's branches, before training, are as small as those of `Centred`, but not centred."""

    factors: ClassVar[dict[Kind, float]] = DISTINCT

    def forward(self, x: Tensor, branch: Branch) -> Tensor:
        factor = 1.0 if self.place.decoder else self.factors[self.place.kind]
        return self.norm(x + factor * self.drop(branch(x)))


class ShrunkSignal(Shrunk):
    """Shrunk so far that, without dropout, not even attention's branch is larger than that of `Centred`."""

    factors: ClassVar[dict[Kind, float]] = SIGNAL
