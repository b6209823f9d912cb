"""Closed forms of the paper's lemmas (section 3.3, appendices B to D), and measurements for Lemmas 1 and 3.

Lemma 2 is measured on the simplified model (`ln_repro.theory.simplified`).
"""

import math

import torch
from torch import Tensor

from ln_repro.claims.intervals import Interval
from ln_repro.theory.simplified import layer_norm
from ln_repro.theory.unit import Measurement, Unit

NUMBERS = 2**20
"""Number of Gaussian numbers drawn for the check of Lemma 1."""
TORCH_SHARE = 1 / 18
"""Contribution of a feed-forward layer with torch's default initialisation to norm^2 / d, ignoring its small biases."""
SCALE = 3.0
"""Factor by which the input is scaled in the check of Lemma 3; the Jacobian becomes smaller by the same factor."""


def relu_moment(d: int, sigma: float) -> float:
    """Return E norm^2 of ReLU(X) for X ~ N(0, sigma^2 I_d) (Lemma 1)."""
    return sigma**2 * d / 2


def feed_forward_share(d: int, d_ff: int) -> float:
    """Return the contribution of a Xavier feed-forward layer to norm^2 / d of the stream; 1/2 if d_ff = d."""
    return 2 * d * d_ff / (d + d_ff) ** 2


def pre_bounds(passed: int, share: float, start: float = 1.0, attentions: int = 1) -> Interval:
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
