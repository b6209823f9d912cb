"""The simplified model of the paper's lemmas and theorem (section 3.3), and measurements on it.

The model is a stack of encoder layers without biases, dropout and learned gains. There is one head with W_Q = W_K = 0,
so attention is the mean over positions. Weights are Xavier Gaussian, inputs Gaussian with E norm^2 = d, targets random.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ln_repro.theory.unit import Measurement, Unit

EPSILON = 0.1
"""Epsilon of the paper's (epsilon, delta)-boundedness (section 3.4)."""
VOCABULARY = 10_000
"""Size of the softmax, as in the paper's IWSLT14 vocabulary."""


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


@dataclass(frozen=True)
class Placement:
    """The norm placement: the equations of a layer, and the operation after the last layer."""

    layer: Callable[[Tensor, Weights], tuple[Tensor, Tensor]]
    final: Callable[[Tensor], Tensor]


PLACEMENTS = {"postln": Placement(post_layer, lambda x: x), "preln": Placement(pre_layer, layer_norm)}


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


def forward(x: Tensor, layers: list[Weights], placement: Placement) -> tuple[Tensor, list[Tensor]]:
    """Return the input of the softmax, and the hidden state of Lemma 2 of every layer, all (..., n, d)."""
    hidden = []
    for weights in layers:
        x, state = placement.layer(x, weights)
        hidden.append(state)
    return placement.final(x), hidden


def hidden_norms(unit: Unit) -> Measurement:
    """Measure the norms of the hidden states of one initialised model, by layer.

    Returns:
        ``square``: mean over positions of norm^2 / d. ``share`` and ``share_square``: share of positions whose norm or
        norm^2 exceeds its mean by more than the share ``EPSILON``.
    """
    draw = unit.generator()
    _, hidden = forward(inputs(unit, draw), stack(unit, draw), PLACEMENTS[unit["norm"]])
    squares = [state.square().sum(-1).flatten() for state in hidden]
    return {
        "square": [float(square.mean()) / unit["d"] for square in squares],
        "share": [share_above(square.sqrt()) for square in squares],
        "share_square": [share_above(square) for square in squares],
    }


def share_above(values: Tensor) -> float:
    """Return the share of values that exceed their mean by more than the share ``EPSILON`` (paper definition 1)."""
    return float((values > (1 + EPSILON) * values.mean()).float().mean())


def gradients(unit: Unit) -> Measurement:
    """Measure the gradients of W2 in every layer over mini-batches of random targets; the loss is in nats.

    Returns:
        ``norm_of_mean``: by layer, the Frobenius norm of the mean over mini-batches (the paper's statistic).
        ``square``: norm^2 / d of the last norm's input.
    """
    draw = unit.generator()
    layers, placement = stack(unit, draw), PLACEMENTS[unit["norm"]]
    embedding = torch.randn(VOCABULARY, unit["d"], generator=draw) / unit["d"] ** 0.5
    seconds = [weights.second.requires_grad_() for weights in layers]
    batches, square = [], 0.0
    for _ in range(unit["batches"]):
        x, hidden = forward(inputs(unit, draw), layers, placement)
        logits = x.flatten(0, 1) @ embedding.T
        targets = torch.randint(VOCABULARY, (len(logits),), generator=draw)
        batches.append(torch.autograd.grad(F.cross_entropy(logits, targets), seconds))
        square += float(hidden[-1].detach().square().mean()) / unit["batches"]
    return {
        "norm_of_mean": [norm_of_mean(torch.stack(of_layer)) for of_layer in zip(*batches, strict=True)],
        "square": square,
    }


def norm_of_mean(batches: Tensor) -> float:
    """Average gradients (batches, d_ff, d) element by element, then take the Frobenius norm (paper section 3.4)."""
    return float(batches.mean(0).norm())
