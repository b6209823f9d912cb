"""The paper's lemmas and theorem: closed forms, the simplified model (section 3.3), and measurements on it.

The model is a stack of encoder layers without biases, dropout and learned gains. There is one head with W_Q = W_K = 0,
so attention is the mean over positions. Weights are Xavier Gaussian, inputs Gaussian with E norm^2 = d, targets random.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import torch
import torch.nn.functional as F
from torch import Tensor

from ln_repro.claims.intervals import Interval
from ln_repro.model.probes.norms import gradient_norms
from ln_repro.theory.unit import Measurement, Unit

NUMBERS = 2**20  # number of Gaussian numbers drawn for the check of Lemma 1
TORCH_SHARE = 1 / 18
"""Contribution of a feed-forward layer with torch's default initialisation to norm^2 / d, ignoring its small biases:
each matrix multiplies norm^2 / width by 1/3 (variance 1 / (3 fan_in)), and the ReLU by 1/2 (Lemma 1)."""
SCALE = 3.0
"""Factor by which the input is scaled in the check of Lemma 3; the Jacobian becomes smaller by the same factor."""
EPSILON = 0.1  # epsilon of the paper's (epsilon, delta)-boundedness (section 3.4)
VOCABULARY = 10_000  # size of the softmax, as in the paper's IWSLT14 vocabulary


def relu_moment(d: int, sigma: float) -> float:
    """Return E norm^2 of ReLU(X) for X ~ N(0, sigma^2 I_d) (Lemma 1)."""
    return sigma**2 * d / 2


def feed_forward_share(d: int, d_ff: int) -> float:
    """Return the contribution of a Xavier feed-forward layer to norm^2 / d of the stream; 1/2 if d_ff = d."""
    return 2 * d * d_ff / (d + d_ff) ** 2


def pre_bounds(passed: int, share: float, start: float, attentions: int) -> Interval:
    """Return bounds on E norm^2 / d of Pre-LN's stream after ``passed`` layers (Lemma 2); it is ``start`` before them.

    A layer's feed-forward adds ``share``, and each of its attentions norm^2 of a mean over positions: between 0, if
    these cancel, and d, if they agree.
    """
    least = start + passed * share
    return least, least + passed * attentions


def last_gradient(d: int, d_ff: int, square: float, targets: int) -> float:
    """Return the root mean square norm of dL/dW2 in the last layer, for uniform targets in a large vocabulary.

    This is Theorem 1 without its inequalities: norm^2 of the ReLUs (Lemma 1), times norm^2 of the layer norm's Jacobian
    (Lemma 3; it removes two of d directions) at an input of norm^2 d ``square`` (Lemma 2), divided by ``targets``.
    """
    relus = d * d_ff / (d + d_ff)
    return math.sqrt(relus * (1 - 2 / d) / (square * targets))


def norm_jacobian(x: Tensor) -> Tensor:
    """Return the Jacobian (d, d) of the layer norm at x (d,): sqrt(d)/|y| (I - y'y/|y|^2) (I - 1'1/d) (Lemma 3)."""
    d = len(x)
    y = x - x.mean()
    eye = torch.eye(d, dtype=x.dtype)
    return d**0.5 / y.norm() * (eye - torch.outer(y, y) / y.square().sum()) @ (eye - 1 / d)


@dataclass(frozen=True)
class Weights:
    """The weights of a layer: W_V (d, d), W1 (d, d_ff), W2 (d_ff, d)."""

    value: Tensor
    first: Tensor
    second: Tensor


def layer_norm(x: Tensor) -> Tensor:
    """Normalise (..., d) without gain, bias and epsilon."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / centred.square().mean(-1, keepdim=True).sqrt()


def attention(x: Tensor, weights: Weights) -> Tensor:
    """Return the mean over positions of (..., n, d), times W_V, as (..., 1, d)."""
    return x.mean(-2, keepdim=True) @ weights.value


def feed_forward(x: Tensor, weights: Weights) -> Tensor:
    return F.relu(x @ weights.first) @ weights.second


def post_layer(x: Tensor, weights: Weights) -> tuple[Tensor, Tensor]:
    """Return x_(l+1) and x5, the stream before the layer's last norm (paper table 1, left)."""
    x3 = layer_norm(x + attention(x, weights))
    x5 = x3 + feed_forward(x3, weights)
    return layer_norm(x5), x5


def pre_layer(x: Tensor, weights: Weights) -> tuple[Tensor, Tensor]:
    """Return x_(l+1) twice, since Lemma 2 is about the stream itself for Pre-LN (paper table 1, right)."""
    x3 = x + attention(layer_norm(x), weights)
    x5 = x3 + feed_forward(layer_norm(x3), weights)
    return x5, x5


PLACEMENTS = {"postln": post_layer, "preln": pre_layer}  # the equations of a layer, by norm placement


def xavier(rows: int, columns: int, draw: torch.Generator) -> Tensor:
    """Draw a (rows, columns) matrix from N(0, 2 / (rows + columns))."""
    return torch.randn(rows, columns, generator=draw) * (2 / (rows + columns)) ** 0.5


def inputs(unit: Unit, draw: torch.Generator) -> Tensor:
    """Draw standard Gaussian inputs, (sequences, positions, d)."""
    return torch.randn(unit["sequences"], unit["positions"], unit["d"], generator=draw)


def stack(unit: Unit, draw: torch.Generator) -> list[Weights]:
    """Draw the weights of every layer."""
    d, d_ff = unit["d"], unit["d_ff"]
    return [Weights(xavier(d, d, draw), xavier(d, d_ff, draw), xavier(d_ff, d, draw)) for _ in range(unit["layers"])]


def forward(x: Tensor, layers: list[Weights], norm: str) -> tuple[Tensor, list[Tensor]]:
    """Return the input of the softmax, and the hidden state of Lemma 2 of every layer, all (..., n, d).

    The input of the softmax is the last of these after a norm: Post-LN's own in the layer, or Pre-LN's final one.
    """
    hidden = []
    for weights in layers:
        x, state = PLACEMENTS[norm](x, weights)
        hidden.append(state)
    return layer_norm(hidden[-1]), hidden


def hidden_norms(unit: Unit) -> Measurement:
    """Measure the `summary` of the hidden states of one initialised model, its only stack being an encoder."""
    draw = unit.generator()
    _, hidden = forward(inputs(unit, draw), stack(unit, draw), unit["norm"])
    squares = [state.square().sum(-1).flatten() for state in hidden]
    return {"encoder": {"input": 1.0, **summary(squares, unit["d"])}}  # the input's expectation


def summary(squares: Sequence[Tensor], d: int) -> dict[str, list[float]]:
    """Summarise norm^2 of the hidden states of each layer, (positions).

    Returns:
        ``squared``: its mean / d. ``above_squared``, ``above``: share of positions whose norm^2 or norm exceeds its
        mean by more than the share ``EPSILON`` (paper definition 1).
    """
    return {
        "squared": [float(square.mean()) / d for square in squares],
        "above_squared": [share_above(square) for square in squares],
        "above": [share_above(square.sqrt()) for square in squares],
    }


def share_above(values: Tensor) -> float:
    return float((values > (1 + EPSILON) * values.mean()).float().mean())


def gradients(unit: Unit) -> Measurement:
    """Measure the `gradient_norms` of W2 (``w2``) in every layer over mini-batches of random targets.

    Beside them is ``square``, norm^2 / d of the last norm's input.
    """
    draw = unit.generator()
    layers = stack(unit, draw)
    embedding = torch.randn(VOCABULARY, unit["d"], generator=draw) / unit["d"] ** 0.5
    squares = []

    def loss() -> Tensor:
        x, hidden = forward(inputs(unit, draw), layers, unit["norm"])
        squares.append(float(hidden[-1].detach().square().mean()))
        logits = x.flatten(0, 1) @ embedding.T
        return F.cross_entropy(logits, torch.randint(VOCABULARY, (len(logits),), generator=draw))

    seconds = {"w2": [weights.second.requires_grad_() for weights in layers]}
    return {**gradient_norms(seconds, [loss] * unit["batches"]), "square": fmean(squares)}


def relu(unit: Unit) -> Measurement:
    """Measure ``ratio``, the mean norm^2 of ReLU(X) divided by that of Lemma 1, from ``numbers`` Gaussian numbers."""
    d, sigma = unit["d"], unit["sigma"]
    x = sigma * torch.randn(unit["numbers"] // d, d, generator=unit.generator())
    return {"ratio": float(x.relu().square().sum(-1).mean()) / relu_moment(d, sigma)}


def jacobian(unit: Unit) -> Measurement:
    """Measure Lemma 3 at one Gaussian input, in double precision.

    Returns:
        ``error``: largest difference from the closed form. ``exact`` and ``bound``: spectral norm over sqrt(d) / norm
        of y and of x. ``scaling``: largest difference between s J(s x) and J(x).
    """
    d = unit["d"]
    x = torch.randn(d, generator=unit.generator(), dtype=torch.double)
    by_autograd = torch.func.jacrev(layer_norm)
    measured = by_autograd(x)
    spectral = float(torch.linalg.matrix_norm(measured, 2)) / d**0.5
    return {
        "error": float((measured - norm_jacobian(x)).abs().max()),
        "exact": spectral * float((x - x.mean()).norm()),
        "bound": spectral * float(x.norm()),
        "scaling": float((by_autograd(SCALE * x) * SCALE - measured).abs().max()),
    }
