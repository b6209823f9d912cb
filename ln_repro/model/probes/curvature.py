"""Preconditioned sharpness: how close the next step is to the edge of stability.

A step of size eta along the preconditioned gradient is stable on a quadratic if eta times the largest eigenvalue of
P^-1 H, H being the Hessian of the loss, is below a threshold: 2 for gradient descent, and (2 + 2 beta1) / (1 - beta1)
for Adam, i.e. 38 if beta1 is 0.9 (Cohen et al. 2022, "Adaptive gradient methods at the edge of stability", section 3).
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import parameters_to_vector

from ln_repro.model.batch import Batch, Model

Vector = NDArray[np.float32]
gradients_of = partial(torch.autograd.grad, materialize_grads=True)  # a user's scheme may leave parameters unused
TOLERANCE = 0.01  # relative error of the eigenvalue, far below its changes in training
KRYLOV = 5  # dimension of the Krylov space: products with the Hessian before the first test of convergence


def mean_loss(criterion: Any, model: Model, sample: Batch) -> Tensor:
    """Return the training loss per target token in nats, without dropout and in a form that has second derivatives."""
    logits, _ = model(**sample["net_input"])
    logits, target = logits.flatten(0, -2), sample["target"].reshape(-1)
    everywhere = criterion.label_smoothing * logits.size(-1) / (logits.size(-1) - 1)  # torch spreads it over all labels
    loss = F.cross_entropy(
        logits, target, ignore_index=criterion.padding_idx, reduction="sum", label_smoothing=everywhere
    )
    return loss / max(sample["ntokens"], 1)


class Sharpness:
    """The largest eigenvalue of P^-1 H, starting from the eigenvector of the last call.

    A resumed run starts from a random vector, so that its values may differ within `TOLERANCE`.
    """

    def __init__(self) -> None:
        self.vector: Vector | None = None

    def __call__(
        self,
        parameters: Sequence[Tensor],
        losses: Sequence[Callable[[], Tensor]],
        precondition: Callable[[Sequence[Tensor]], Tensor],
    ) -> tuple[float, int]:
        """Return the eigenvalue, NaN if the model overflows, and the number of products with the Hessian.

        The loss is the mean of ``losses``, whose graphs are all in memory at once; ``precondition`` maps its gradient
        to the diagonal of P, flat.
        """
        sizes = [parameter.numel() for parameter in parameters]
        with sdpa_kernel(SDPBackend.MATH):  # the others have no second derivatives
            firsts = [parameters_to_vector(gradients_of(loss(), parameters, create_graph=True)) for loss in losses]
        total = torch.stack(firsts).mean(0)
        gradient = [part.view_as(p) for part, p in zip(torch.split(total.detach(), sizes), parameters, strict=True)]
        scale = precondition(gradient).rsqrt()  # P^-1/2 H P^-1/2 has the eigenvalues of P^-1 H and is symmetric
        products = 0

        def multiply(vector: Vector) -> Vector:
            nonlocal products
            products += 1
            direction = scale * torch.from_numpy(vector.ravel()).to(scale)
            second = gradients_of(total, parameters, direction, retain_graph=True)
            product = (scale * parameters_to_vector(second)).cpu().numpy()
            if not np.isfinite(product).all():
                raise FloatingPointError
            return product

        if self.vector is None:
            self.vector = np.random.default_rng(0).standard_normal(scale.numel(), dtype=np.float32)
        operator = LinearOperator((scale.numel(),) * 2, matvec=multiply, dtype=np.float32)
        try:
            (value,), vectors = eigsh(operator, k=1, which="LA", v0=self.vector, ncv=KRYLOV, tol=TOLERANCE)
        except (FloatingPointError, ArpackError):  # an overflow, which the next update reports, or no curvature
            return math.nan, products
        self.vector = vectors[:, 0]
        return float(value), products
