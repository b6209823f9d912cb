"""Whether the tokens of a stack become alike, and whether the loss still reaches its first layers.

In a stack whose attention mixes tokens faster than its branches tell them apart, all tokens tend to one vector, and the
gradient of queries, keys and of everything below vanishes (Dong et al. 2021, arXiv 2103.03404; Noci et al. 2022,
arXiv 2206.03126).
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from ln_repro.model.batch import Batch, Criterion, Model
from ln_repro.model.layers import Stack
from ln_repro.model.probes.norms import gradient_norms, layer_weights
from ln_repro.model.sub_layers import Attention

GRADIENTS = ("encoder.w2", "decoder.w2", "decoder.cross.v")
"""The weights whose gradients are measured, of those that a model has."""
DIGITS = 4
"""Significant digits of the values, so that the probes of a run take a few kilobytes; cosines have six decimals."""

Values = dict[str, Mapping[str, float | list[float]]]


def mean_cosines(x: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and the mean squared cosine of all pairs of different tokens of ``x`` (time, batch, width).

    Both are 1 if all tokens have the same direction, the second also if some have the opposite one. ``real``
    (batch, time) marks the tokens that are not padding; with a single one, the results are 1.
    """
    tokens = nn.functional.normalize(x.transpose(0, 1)[real].double(), dim=-1)
    number = len(tokens)
    if number < 2:
        return tokens.new_ones(()), tokens.new_ones(())
    cosines, squares = tokens.sum(0).square().sum(), (tokens.T @ tokens).square().sum()  # each token with itself, too
    pairs = number * (number - 1)
    return (cosines - number) / pairs, (squares - number) / pairs


def relative_entropy(
    attention: Attention, query: Tensor, source: Tensor, mask: Tensor | None, causal: bool, real: Tensor
) -> Tensor:
    """Return the entropy of attention's weights divided by its maximum, the logarithm of the number of visible tokens.

    It is the mean over heads and over ``real`` (batch, time) queries that see two tokens or more; the other arguments
    are those of `Attention.forward`.
    """
    q = attention.split(attention.q_proj(query.to(attention.q_proj.weight.dtype)), attention.q_norm).float()
    k = attention.split(attention.k_proj(source.to(attention.k_proj.weight.dtype)), attention.k_norm).float()
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores + mask
    if causal:
        scores = scores.masked_fill(scores.new_ones(scores.shape[-2:]).triu(1).bool(), -math.inf)
    visible = scores.isfinite().sum(-1)[:, 0]
    entropy = torch.special.entr(scores.softmax(-1)).sum(-1).mean(1)  # over heads
    chosen = real & (visible > 1)
    return (entropy[chosen] / visible[chosen].log()).double().mean()


Measured = defaultdict[str, list[Tensor]]


@contextmanager
def watch(stacks: dict[str, Stack], real: dict[str, Tensor]) -> Iterator[tuple[Measured, Measured, Measured]]:
    """Measure cosines, squared cosines and entropies in the forward pass of a model inside the context; yield them.

    Cosines are those of each layer by stack and, if the stack has a final norm, of its output, so that the last value
    is always that of the stack's output. Entropies are those of each layer by kind of attention.
    """
    cosines, squared, entropies = Measured(list), Measured(list), Measured(list)

    @torch.no_grad()
    def output(stack: str, module: nn.Module, inputs: object, x: Tensor | tuple[Tensor, Tensor]) -> None:
        means = mean_cosines(x if isinstance(x, Tensor) else x[0], real[stack])
        for of_stacks, mean in zip((cosines, squared), means, strict=True):
            of_stacks[stack].append(mean)

    @torch.no_grad()
    def attend(
        stack: str, kind: str, attention: Attention, inputs: tuple[Tensor, ...], keywords: dict[str, bool]
    ) -> None:
        query, source, mask = inputs
        entropy = relative_entropy(attention, query, source, mask, keywords["causal"], real[stack])
        entropies[f"{stack}.{kind}"].append(entropy)

    with ExitStack() as hooks:
        for name, stack in stacks.items():
            for module in [*stack.layers, *([stack.norm] if stack.scheme.final_norm else [])]:
                hooks.enter_context(module.register_forward_hook(partial(output, name)))
            for attention in (module for module in stack.modules() if isinstance(module, Attention)):
                hook = partial(attend, name, "cross" if attention.cross else "self")
                hooks.enter_context(attention.register_forward_pre_hook(hook, with_kwargs=True))
        yield cosines, squared, entropies


def collapse(criterion: Criterion, model: Model, samples: Sequence[Batch], pad: int) -> Values:
    """Return how alike the tokens of a model are, its gradients, entropies of attention and losses.

    All but one loss is measured in evaluation mode; the model's mode, parameters and accumulated gradients do not
    change. The generator of random numbers is seeded, as it is for every mini-batch of training.

    Returns:
        Means over the mini-batches: ``cosine`` and ``squared_cosine`` by stack, as in `watch`; ``gradient``, the norms
        of the mean gradient of `GRADIENTS` by layer, as in `gradient_norms`; ``entropy`` by kind of attention and
        layer, as in `relative_entropy`; ``nll``, bits per token without (``eval``) and with dropout (``dropout``).
    """
    weights = {name: weight for name, weight in layer_weights(**model.stacks).items() if name in GRADIENTS}
    measured: list[tuple[Measured, Measured, Measured]] = []
    nll: dict[str, list[tuple[Tensor | float, int]]] = {"eval": [], "dropout": []}

    def loss(sample: Batch) -> Tensor:
        inputs = sample["net_input"]
        tokens = {"encoder": inputs["src_tokens"], "decoder": inputs.get("prev_output_tokens")}
        with watch(model.stacks, {name: tokens[name].ne(pad) for name in model.stacks}) as of_batch:
            total, number, log = criterion(model, sample)
        measured.append(of_batch)
        nll["eval"].append((log["nll_loss"], number))
        return total / max(number, 1)

    model.eval()
    norms = gradient_norms(weights, [partial(loss, sample) for sample in samples])["norm_of_mean"]
    model.train()
    with torch.no_grad():
        for seed, sample in enumerate(samples, 1):
            torch.manual_seed(seed)
            _, number, log = criterion(model, sample)
            nll["dropout"].append((log["nll_loss"], number))
    cosines, squared, entropies = zip(*measured, strict=True)
    return {
        "cosine": _means(cosines, partial(round, ndigits=6)),
        "squared_cosine": _means(squared, partial(round, ndigits=6)),
        "gradient": {name: [_short(value) for value in values] for name, values in norms.items()},
        "entropy": _means(entropies, _short),
        "nll": {name: _short(_bits(logs)) for name, logs in nll.items()},
    }


def _means(of_batches: Sequence[Measured], short: Callable[[float], float]) -> dict[str, list[float]]:
    stacked = {name: torch.stack([torch.stack(values[name]) for values in of_batches]) for name in of_batches[0]}
    return {name: [short(value) for value in values.mean(0).tolist()] for name, values in stacked.items()}


def _bits(logs: Sequence[tuple[Tensor | float, int]]) -> float:
    return sum(float(nats) for nats, _ in logs) / max(sum(number for _, number in logs), 1) / math.log(2)


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
