"""Encoder and decoder layers, stacks of layers, and embeddings."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ln_repro.experiment.settings import Experiment
from ln_repro.model.residual import Kind, Place, Residual
from ln_repro.model.schemes.registry import scheme_of
from ln_repro.model.sub_layers import Attention, Cache, FeedForward, SubLayer


@dataclass(frozen=True)
class Shape:
    """Dimensions of encoder and decoder, or of an encoder-only model."""

    norm: str
    layers: int
    width: int
    ffn: int
    heads: int
    dropout: float
    encoder_only: bool = False

    @classmethod
    def of(cls, experiment: Experiment) -> "Shape":
        model, alone = experiment.model, experiment.task != "translation"
        return cls(experiment.norm, model.layers, model.width, model.ffn, model.heads, model.dropout, alone)

    @property
    def scheme(self) -> type[Residual]:
        return scheme_of(self.norm)

    def place(self, decoder: bool, layer: int = 0, kind: Kind = "self_attn") -> Place:
        return Place(decoder, self.layers, 0 if self.encoder_only else self.layers, layer, kind)

    def residual(self, sub_layer: SubLayer, place: Place) -> Residual:
        """Return a new residual connection around a new sub-layer, in which it may change modules."""
        residual = self.scheme(self.width, self.dropout, place)
        residual.inside(sub_layer)
        sub_layer.gain = residual.gain(place)
        return residual


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, shape: Shape, layer: int = 0) -> None:
        super().__init__()
        self.self_attn = Attention(shape.width, shape.heads)
        self.ffn = FeedForward(shape.width, shape.ffn)
        self.self_attn_residual = shape.residual(self.self_attn, shape.place(False, layer, "self_attn"))
        self.ffn_residual = shape.residual(self.ffn, shape.place(False, layer, "ffn"))

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Map (time, batch, width) to the same; ``mask`` hides the padding, see `Attention`."""
        x = self.self_attn_residual(x, lambda y: self.self_attn(y, y, mask, causal=False, cache=None))
        return self.ffn_residual(x, self.ffn)


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention, then feed-forward."""

    def __init__(self, shape: Shape, layer: int = 0) -> None:
        super().__init__()
        self.self_attn = Attention(shape.width, shape.heads)
        self.cross_attn = Attention(shape.width, shape.heads, cross=True)
        self.ffn = FeedForward(shape.width, shape.ffn)
        self.self_attn_residual = shape.residual(self.self_attn, shape.place(True, layer, "self_attn"))
        self.cross_attn_residual = shape.residual(self.cross_attn, shape.place(True, layer, "cross_attn"))
        self.ffn_residual = shape.residual(self.ffn, shape.place(True, layer, "ffn"))

    def forward(self, x: Tensor, memory: Tensor, memory_mask: Tensor | None, cache: Cache | None) -> Tensor:
        """Map (time, batch, width) to the same, reading ``memory`` (source time, batch, width).

        With ``cache``, ``x`` is only the newest position; earlier ones are cached.
        """
        x = self.self_attn_residual(x, lambda y: self.self_attn(y, y, None, causal=cache is None, cache=cache))
        x = self.cross_attn_residual(x, lambda y: self.cross_attn(y, memory, memory_mask, causal=False, cache=cache))
        return self.ffn_residual(x, self.ffn)


class Stack(nn.Module):
    """Layers of one kind and, if the norm placement requires it, a final norm."""

    def __init__(self, kind: type[EncoderLayer] | type[DecoderLayer], shape: Shape) -> None:
        super().__init__()
        self.layers = nn.ModuleList(kind(shape, layer) for layer in range(shape.layers))
        self.heads = shape.heads
        self.scheme = shape.scheme
        self.norm = self.scheme.new_norm(shape.width) if self.scheme.final_norm else nn.Identity()
        self.embedding_gain = self.scheme.embedding_gain(shape.place(decoder=kind is DecoderLayer))

    def mask(self, padding: Tensor) -> Tensor:
        """Return a mask for attention to tokens of which some are ``padding`` (batch, time): 0, or -inf at padding.

        Its shape is (batch, heads, 1, time). Omitting it where there is no padding would need a synchronisation with
        the GPU. Its rows are a multiple of 8 apart, as required by CUDA's attention.
        """
        batch, time = padding.shape
        dtype = next(self.layers[0].parameters()).dtype  # that of attention, which may be in low precision
        rows = padding.new_zeros(batch, self.heads, 1, time + -time % 8, dtype=dtype)
        return rows[..., :time].masked_fill_(padding[:, None, None], -math.inf)

    def forward(self, x: Tensor, *context: object) -> Tensor:
        """Map (time, batch, width) to the same; ``context`` is passed to each layer."""
        for layer in self.layers:
            x = layer(x, *context)
        return self.norm(x)


class TokenEmbedding(nn.Module):
    """Embeddings times sqrt(width), plus sinusoidal positions that skip padding, then dropout.

    As in fairseq and tensor2tensor, the first half of the features are sines and the second half cosines.
    """

    table: Tensor

    def __init__(self, embedding: nn.Embedding, dropout: float) -> None:
        super().__init__()
        assert embedding.padding_idx is not None
        self.pad = embedding.padding_idx
        self.width = embedding.embedding_dim
        self.embedding = embedding
        self.drop = nn.Dropout(dropout)
        self.register_buffer("table", torch.empty(0, self.width), persistent=False)

    def forward(self, tokens: Tensor, newest_only: bool = False) -> Tensor:
        """Embed ``tokens`` (batch, time) as (batch, time, width), or only the last position of each row."""
        time = tokens.size(1)
        if newest_only:  # as in fairseq, the position is the length so far
            tokens = tokens[:, -1:]
            positions = torch.full_like(tokens, time + self.pad)
        else:
            present = tokens.ne(self.pad)
            positions = present.cumsum(1) * present + self.pad
        embedded = self.embedding(tokens) * self.width**0.5 + F.embedding(positions, self._positions(time))
        return self.drop(embedded)

    def _positions(self, time: int) -> Tensor:
        """Return the table for at least ``time`` positions, which are counted from ``pad + 1``."""
        if self.table.size(0) <= time + self.pad:
            self.table = sinusoids(2 * (time + self.pad) + 64, self.width, self.pad).to(self.table)
        return self.table


def sinusoids(positions: int, width: int, pad: int) -> Tensor:
    """Return the table (positions, width) of sinusoidal embeddings; row ``pad`` is zero."""
    half = width // 2
    rates = torch.exp(torch.arange(half, dtype=torch.float) * -(math.log(10000) / (half - 1)))
    angles = torch.arange(positions, dtype=torch.float)[:, None] * rates[None, :]
    table = torch.cat([angles.sin(), angles.cos()], dim=1)
    table[pad] = 0
    return table
