"""Measurements on Transformers at initialisation, with random tokens from a Zipf distribution.

The models consist of the engine's layers and initialisations, without fairseq. The loss is the training loss: the mean
per target token in nats, with label smoothing 0.1.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ln_repro.model import init
from ln_repro.model.layers import DecoderLayer, EncoderLayer, Shape, Stack, TokenEmbedding
from ln_repro.model.probes.norms import Weights, gradient_norms, layer_weights
from ln_repro.theory.lemmas import summary
from ln_repro.theory.unit import Measurement, Unit

PAD, EOS, FIRST_WORD = 1, 2, 4  # as in fairseq's dictionaries
SMOOTHING = 0.1


@dataclass(frozen=True)
class Setting:
    """A model and its mini-batches; the defaults are the paper's on IWSLT14."""

    norm: str
    layers: int
    init: str = "xavier"
    tied: bool = False  # one matrix for source, target and softmax
    width: int = 512
    ffn: int = 1024
    heads: int = 4
    dropout: float = 0.1
    vocabulary: int = 10_000
    batches: int = 2
    sentences: int = 16  # per mini-batch
    length: int = 24  # tokens of a sentence, with ``</s>``


class Transformer(nn.Module):
    """The model of `ln_repro.engine.plugin.model` without fairseq's interfaces, initialised from ``seed``."""

    def __init__(self, setting: Setting, seed: int) -> None:
        super().__init__()
        self.setting = setting
        shape = Shape(setting.norm, setting.layers, setting.width, setting.ffn, setting.heads, setting.dropout)
        matrices = [nn.Embedding(setting.vocabulary, setting.width, PAD) for _ in range(1 if setting.tied else 2)]
        self.source = TokenEmbedding(matrices[0], setting.dropout)
        self.target = TokenEmbedding(matrices[-1], setting.dropout)
        self.encoder = Stack(EncoderLayer, shape)
        self.decoder = Stack(DecoderLayer, shape)
        self.projection = nn.Linear(setting.width, setting.vocabulary, bias=False)
        if setting.tied:
            self.projection.weight = matrices[0].weight
        torch.manual_seed(seed)
        init.initialise(matrices, [self.encoder, self.decoder], self.projection, setting.init)

    def states(self, source: Tensor, target: Tensor) -> Tensor:
        """Return the input of the softmax, (batch, time, width), for ``source`` and ``target``, (batch, time) each."""
        memory = self.encoder(self.source(source).transpose(0, 1), None)
        before = F.pad(target[:, :-1], (1, 0), value=EOS)
        states: Tensor = self.decoder(self.target(before).transpose(0, 1), memory, None, None).transpose(0, 1)
        return states

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Return the mean loss per token of ``target`` given ``source``, both (batch, time) without padding."""
        logits = self.projection(self.states(source, target)).flatten(0, 1)
        smoothing = SMOOTHING * logits.size(-1) / (logits.size(-1) - 1)  # torch includes the correct label
        return F.cross_entropy(logits, target.flatten(), label_smoothing=smoothing)


def zipf_batches(setting: Setting, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield source and target, (sentences, length) each: words with frequencies of 1 / rank, and EOS."""
    draw = torch.Generator().manual_seed(seed)
    weights = 1 / torch.arange(1, setting.vocabulary - FIRST_WORD + 1, dtype=torch.float)
    shape = (2, setting.sentences, setting.length)
    for _ in range(setting.batches):
        words = torch.multinomial(weights, 2 * setting.sentences * setting.length, replacement=True, generator=draw)
        tokens = words.view(shape) + FIRST_WORD
        tokens[..., -1] = EOS
        source, target = tokens
        yield source, target


def model_of(unit: Unit) -> Transformer:
    """Return the model of a unit."""
    return Transformer(Setting(**unit.settings), unit.seed)


def real_gradients(unit: Unit) -> Measurement:
    """Return `gradient_norms` of all layers at initialisation, with dropout (paper section 3.4, figure 3)."""
    model = model_of(unit).train()
    return norms(unit, model, layer_weights(encoder=model.encoder, decoder=model.decoder))


def real_uncrossed_gradients(unit: Unit) -> Measurement:
    """Return `gradient_norms` of the decoder's W1 and W2 at initialisation if all cross-attention gives zeros."""
    model = model_of(unit).train()
    for layer in model.decoder.layers:
        layer.get_submodule("cross_attn").register_forward_hook(lambda _, args, output: torch.zeros_like(output))
    weights = layer_weights(decoder=model.decoder)
    return norms(unit, model, {name: weights[name] for name in ("decoder.w1", "decoder.w2")})


def real_last_gradient(unit: Unit) -> Measurement:
    """Return `gradient_norms` of ``decoder.w2`` of the last layer only, at a third of the cost."""
    model = model_of(unit).train().requires_grad_(False)
    last = layer_weights(decoder=model.decoder)["decoder.w2"][-1]
    last.requires_grad_()
    return norms(unit, model, {"decoder.w2": [last]})


def norms(unit: Unit, model: Transformer, weights: Weights) -> Measurement:
    """Return `gradient_norms` of some weights over the unit's mini-batches."""
    return {**gradient_norms(weights, [partial(model, *batch) for batch in zipf_batches(model.setting, unit.seed)])}


@torch.no_grad()
def real_hidden_states(unit: Unit) -> Measurement:
    """Measure the norms of the hidden states over one mini-batch, without dropout (paper section 3.4; Lemma 2).

    Returns:
        For ``encoder`` and ``decoder``, the `summary` of the layers, and ``input``, norm^2 / width before the first.
    """
    model = model_of(unit).eval()
    setting = model.setting
    seen = {"encoder": watch(model.encoder, setting.norm), "decoder": watch(model.decoder, setting.norm)}
    ((source, target),) = zipf_batches(setting, unit.seed)
    model.states(source, target)
    return {
        stack: {"input": float(before.mean()) / setting.width, **summary(layers, setting.width)}
        for stack, (before, *layers) in seen.items()
    }


def watch(stack: Stack, norm: str) -> list[Tensor]:
    """Return a list to which a pass through the stack adds norm^2 of all positions, of its input and by layer.

    The state of a layer is x5 before its last norm for Post-LN, and its output for Pre-LN.
    """
    seen: list[Tensor] = []
    layers: Any = stack.layers

    def note(x: Tensor) -> None:
        seen.append(x.square().sum(-1).flatten())

    layers[0].register_forward_pre_hook(lambda _, args: note(args[0]))
    for layer in layers:
        if norm == "postln":
            layer.ffn_residual.norm.register_forward_pre_hook(lambda _, args: note(args[0]))
        else:
            layer.register_forward_hook(lambda _, args, output: note(output))
    return seen
