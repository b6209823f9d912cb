"""Initialisation of the model's matrices.

It changes the gradients at initialisation by a factor of up to 4, so nothing is left to the defaults of a library:

=================  ==================================  ===========================  ============
name               attention                           feed-forward                 biases
=================  ==================================  ===========================  ============
``xavier_legacy``  Xavier uniform, q/k/v gain 1/sqrt2  Xavier uniform               0
``xavier``         Xavier Gaussian, gain 1             Xavier Gaussian              0
``theory``         W_Q = W_K = 0, rest Xavier Gaussian Xavier Gaussian              0
``fairseq``        Xavier uniform, q/k/v gain 1/sqrt2  U(+-1/sqrt(fan_in))          as torch's
                                                                                    Linear, out 0
=================  ==================================  ===========================  ============

``xavier_legacy`` is fairseq's at the time of the paper, ``theory`` the setting of the analysis (paper section 3.3), and
``fairseq`` that of version 0.12.2, in the same order, so that a seed gives the same model. Embeddings are always
N(0, 1/width). A norm placement may scale the embeddings and the matrices of its branches, and then constrain them
(`Residual.embedding_gain`, `Residual.gain`, `Residual.constrain`).
"""

from collections.abc import Callable
from functools import partial
from itertools import chain

import torch
from torch import nn

from ln_repro.model.layers import Stack
from ln_repro.model.sub_layers import Attention, FeedForward, SubLayer

SQRT_HALF = 2**-0.5


def xavier(part: SubLayer, draw: Callable[..., object] = nn.init.xavier_normal_, inner_gain: float = 1.0) -> None:
    """Initialise a sub-layer: weights by ``draw``, those of queries, keys and values with a gain, and biases with 0."""
    if isinstance(part, Attention):
        gains = {part.k_proj: inner_gain, part.v_proj: inner_gain, part.q_proj: inner_gain, part.out_proj: 1.0}
    else:
        gains = {part.fc1: 1.0, part.fc2: 1.0}
    for linear, gain in gains.items():
        draw(linear.weight, gain=gain)
        nn.init.zeros_(linear.bias)


def theory(part: SubLayer) -> None:
    """Initialise as in the analysis: attention starts as the mean over positions (paper section 3.3)."""
    xavier(part)
    if isinstance(part, Attention):
        nn.init.zeros_(part.q_proj.weight)
        nn.init.zeros_(part.k_proj.weight)


def fairseq(part: SubLayer) -> None:
    """Initialise as fairseq 0.12.2 does: torch's default for the feed-forward, and biases that are not zero."""
    if isinstance(part, Attention):
        inner = (part.k_proj, part.v_proj, part.q_proj)
        for linear in (*inner, part.out_proj):
            linear.reset_parameters()
        for linear in inner:
            nn.init.xavier_uniform_(linear.weight, gain=SQRT_HALF)
        nn.init.xavier_uniform_(part.out_proj.weight)
        nn.init.zeros_(part.out_proj.bias)
    else:
        part.fc1.reset_parameters()
        part.fc2.reset_parameters()


INITIALISERS: dict[str, Callable[[SubLayer], None]] = {
    "xavier_legacy": partial(xavier, draw=nn.init.xavier_uniform_, inner_gain=SQRT_HALF),
    "xavier": xavier,
    "theory": theory,
    "fairseq": fairseq,
}


@torch.no_grad()
def initialise(
    embeddings: list[nn.Embedding], stacks: list[Stack], projection: nn.Linear, name: str, branch_gain: float = 1.0
) -> None:
    """Initialise embeddings (source first), softmax and sub-layers, as ``name`` says, from torch's last seed.

    The generator is reseeded, so that the result does not depend on random numbers that constructors have drawn;
    `reset_parameters` draws what fairseq's constructors draw, so that the numbers after it are fairseq's. Norms and the
    parameters of a placement keep their values. A shared embedding has the encoder's gain, and may be ``projection``.
    """
    torch.manual_seed(torch.initial_seed())
    for embedding, stack in zip(embeddings, stacks, strict=False):
        embedding.reset_parameters()
        nn.init.normal_(embedding.weight, std=stack.embedding_gain * embedding.embedding_dim**-0.5)
        nn.init.zeros_(embedding.weight[embedding.padding_idx])
    for stack in stacks:
        for part in stack.modules():
            if isinstance(part, Attention | FeedForward):
                INITIALISERS[name](part)
                outward = (part.v_proj, part.out_proj) if isinstance(part, Attention) else (part.fc1, part.fc2)
                for linear in outward:  # which determine the size of the output, unlike those of queries and keys
                    linear.weight.mul_(branch_gain * part.gain)
    if all(projection.weight is not embedding.weight for embedding in embeddings):
        projection.reset_parameters()
        nn.init.normal_(projection.weight, std=projection.in_features**-0.5)
    stacks[0].scheme.constrain(chain(embeddings, *(stack.modules() for stack in stacks), [projection]))
