"""Gradient norms of a model in training, by layer (paper section 3.4, figure 3)."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from ln_repro.model.batch import Batch, Criterion, Model
from ln_repro.model.layers import Stack

ATTENTION = {
    f"{kind}.{name}": f"{kind}_attn.{name}_proj.weight" for kind in ("self", "cross") for name in ("q", "k", "v", "out")
}
MATRICES = {"w1": "ffn.fc1.weight", "w2": "ffn.fc2.weight", **ATTENTION}
"""The weights of a layer by their names in events: the paper's W1 and W2, and those of attention."""

Weights = dict[str, list[Tensor]]
Norms = dict[str, list[float]]


def layer_weights(**stacks: Stack) -> Weights:
    """Return the weights of all layers by names such as ``decoder.w2``."""
    weights: Weights = {}
    for name, stack in stacks.items():
        for layer in stack.layers:
            parameters = dict(layer.named_parameters())
            for kind, path in MATRICES.items():
                if path in parameters:
                    weights.setdefault(f"{name}.{kind}", []).append(parameters[path])
    return weights


def gradient_norms(weights: Weights, losses: Sequence[Callable[[], Tensor]]) -> dict[str, Norms]:
    """Return norms for each kind of weight and layer.

    ``norm_of_mean`` is the paper's, the Frobenius norm of the gradient averaged over mini-batches; ``mean_of_norms`` is
    the mean of the norms of each mini-batch's gradient; ``noise``, given two mini-batches or more, is the root of the
    unbiased variance of a mini-batch's gradient, summed over the entries. Accumulated gradients are not changed. Each
    of ``losses`` returns the mean loss per target token of a mini-batch, in nats.
    """
    of_all = [weight for of_kind in weights.values() for weight in of_kind]
    total = [torch.zeros_like(weight) for weight in of_all]
    norms, squares = ([torch.zeros((), device=weight.device) for weight in of_all] for _ in range(2))
    for loss in losses:
        gradients = torch.autograd.grad(loss(), of_all)
        torch._foreach_add_(total, gradients)
        of_batch = torch._foreach_norm(gradients)
        torch._foreach_add_(norms, of_batch)
        torch._foreach_addcmul_(squares, of_batch, of_batch)
    number = len(losses)
    means = torch.stack(torch._foreach_norm(total)) / number
    statistics = {"norm_of_mean": means, "mean_of_norms": torch.stack(norms) / number}
    if number > 1:
        spread = torch.stack(squares) / number - means.square()
        statistics["noise"] = (spread.clamp(min=0) * number / (number - 1)).sqrt()
    return {name: by_layer(weights, values) for name, values in statistics.items()}


def by_layer(weights: Weights, values: Tensor) -> Norms:
    """Return the values, in the order of ``weights``, by kind and layer."""
    flat: list[float] = values.tolist()
    return {name: [flat.pop(0) for _ in of_kind] for name, of_kind in weights.items()}


def probe(criterion: Criterion, model: Model, samples: Sequence[Batch]) -> dict[str, Norms]:
    """Return the `gradient_norms` of a model over mini-batches, with dropout.

    The parameters and their accumulated gradients do not change. The generator of random numbers is seeded, as it is
    for every mini-batch of training.
    """

    def loss(number: int, sample: Batch) -> Tensor:
        torch.manual_seed(number)
        total, tokens, _ = criterion(model, sample)
        return total / max(tokens, 1)

    losses = [partial(loss, *numbered) for numbered in enumerate(samples, 1)]
    return gradient_norms(layer_weights(**model.stacks), losses)
