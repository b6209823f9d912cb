"""Norms by layer: of the gradients (paper section 3.4, figure 3), and of what one update changes.

Even a small change of the weights can change the output of a deep model a great deal, because each residual branch
amplifies the change of its input (Liu et al. 2020, section 4). Relative changes of the output are bounded in healthy
training (Kosson et al. 2024, arXiv 2410.23922).
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

import torch
from torch import Tensor, nn

from ln_repro.model.batch import Batch, Criterion, Model
from ln_repro.model.layers import Stack
from ln_repro.model.residual import Residual

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


def outputs_of(model: Model, sample: Batch) -> dict[str, list[Tensor]]:
    """Return the output of each residual connection for a mini-batch, by stack.

    If the stack has a final norm, its output comes last. A connection with several streams contributes the first.
    """
    outputs: dict[str, list[Tensor]] = {name: [] for name in model.stacks}

    def keep(name: str, module: nn.Module, inputs: object, y: Tensor | tuple[Tensor, Tensor]) -> None:
        outputs[name].append(y if isinstance(y, Tensor) else y[0])

    with ExitStack() as hooks:
        for name, stack in model.stacks.items():
            connections = [module for module in stack.modules() if isinstance(module, Residual)]
            for module in [*connections, stack.norm] if stack.scheme.final_norm else connections:
                hooks.enter_context(module.register_forward_hook(partial(keep, name)))
        model(**sample["net_input"])
    return outputs


@torch.no_grad()
def relative_changes(model: Model, before: list[Tensor], samples: Sequence[Batch]) -> dict[str, dict[str, list[float]]]:
    """Return how much a model, in evaluation mode, has changed since its parameters were ``before``.

    ``weights`` has ||dW|| / ||W|| by kind of weight and layer, and ``outputs`` has ||dy|| / ||y|| by stack and
    sub-layer, where y are the outputs of the residual connection for all tokens of the mini-batches, padding included.
    A final norm, if there is one, comes last, so that the last value is always that of the stack's output.
    """
    parameters: list[Tensor] = list(model.parameters())
    after = [parameter.clone() for parameter in parameters]
    outputs: dict[str, Tensor] = {}
    for sample in samples:
        new = outputs_of(model, sample)
        torch._foreach_copy_(parameters, before)
        old = outputs_of(model, sample)
        torch._foreach_copy_(parameters, after)
        for name in new:
            squares = torch.stack([_squares(*pair) for pair in zip(new[name], old[name], strict=True)])
            outputs[name] = outputs.get(name, 0) + squares
    weights, earlier = layer_weights(**model.stacks), dict(zip(parameters, before, strict=True))
    changed = [_squares(weight, earlier[weight]) for of_kind in weights.values() for weight in of_kind]
    return {
        "weights": by_layer(weights, _ratio(torch.stack(changed))),
        "outputs": {name: _ratio(squares).tolist() for name, squares in outputs.items()},
    }


def _squares(new: Tensor, old: Tensor) -> Tensor:
    """Return the squared norms of the change and of the old value."""
    return torch.stack([(new - old).square().sum(), old.square().sum()])


def _ratio(squares: Tensor) -> Tensor:
    return (squares[:, 0] / squares[:, 1]).sqrt()
