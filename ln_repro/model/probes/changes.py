"""How far one update changes the weights and the output of each sub-layer.

Even a small change of the weights can change the output of a deep model a great deal, because each residual branch
amplifies the change of its input (Liu et al. 2020, section 4). Relative changes of the output are bounded in healthy
training (Kosson et al. 2024, arXiv 2410.23922).
"""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

import torch
from torch import Tensor, nn

from ln_repro.model.batch import Batch, Model
from ln_repro.model.probes.gradients import by_layer, layer_weights
from ln_repro.model.residual import Residual


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
            for module in connections + [stack.norm] * stack.scheme.final_norm:
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
