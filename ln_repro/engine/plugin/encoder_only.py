"""The encoder alone under a softmax: a masked language model of the very layers that translate."""

from typing import Any

import torch
from fairseq.models import BaseFairseqModel, register_model
from torch import Tensor, nn

from ln_repro.engine.plugin import init
from ln_repro.engine.plugin.layers import EncoderLayer, Shape, Stack, TokenEmbedding
from ln_repro.engine.plugin.model import MAX_POSITIONS, Encoder, LnTransformerConfig


@register_model("ln_encoder", dataclass=LnTransformerConfig)
class LnEncoder(BaseFairseqModel):
    """Encoder and softmax, with the norm placement and initialisation as parameters."""

    def __init__(self, encoder: Encoder, projection: nn.Linear) -> None:
        super().__init__()
        self.encoder = encoder
        self.projection = projection

    @classmethod
    def build_model(cls, cfg: LnTransformerConfig, task: Any) -> "LnEncoder":
        """Build and initialise the model for the dictionary of ``task``."""
        words = task.source_dictionary
        shape = Shape(cfg.norm, cfg.layers, cfg.width, cfg.ffn, cfg.heads, cfg.dropout, alone=True)
        embedding = nn.Embedding(len(words), cfg.width, words.pad())
        projection = nn.Linear(cfg.width, len(words), bias=False)
        if cfg.share_embeddings:
            projection.weight = embedding.weight
        encoder = Encoder(words, TokenEmbedding(embedding, cfg.dropout), Stack(EncoderLayer, shape))
        with torch.no_grad():
            init.initialise([embedding], [encoder.stack], projection, cfg.init)
        return cls(encoder, projection)

    def forward(self, src_tokens: Tensor, asked: Tensor) -> tuple[Tensor, None]:
        """Return the logits (positions, vocabulary) at some positions of ``src_tokens`` (batch, time).

        ``asked`` numbers them through, row by row. The softmax of the others, most of its cost, is never computed.
        """
        x = self.encoder(src_tokens)["x"].transpose(0, 1)
        return self.projection(x.flatten(0, 1).index_select(0, asked)), None

    @property
    def stacks(self) -> dict[str, Stack]:
        """Return the stacks of layers by name."""
        return {"encoder": self.encoder.stack}

    def max_positions(self) -> int:
        """Return the longest block of text, in tokens."""
        return MAX_POSITIONS
