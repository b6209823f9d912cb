"""Encoder-only models: the translation model's encoder with a softmax or a classifier on top."""

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderModel
from torch import Tensor, nn

from ln_repro.engine.plugin.model import Encoder
from ln_repro.engine.plugin.task import LnTask
from ln_repro.experiment.settings import Experiment
from ln_repro.experiment.tasks import TASKS
from ln_repro.model import init
from ln_repro.model.layers import EncoderLayer, Shape, Stack, TokenEmbedding


class EncoderOnly(FairseqEncoderModel):
    """An encoder and its output layer."""

    @property
    def stacks(self) -> dict[str, Stack]:
        return {"encoder": self.encoder.stack}


class LnEncoder(EncoderOnly):
    """Encoder with a softmax over the vocabulary."""

    def __init__(self, encoder: Encoder, projection: nn.Linear) -> None:
        super().__init__(encoder)
        self.projection = projection

    @classmethod
    def build_model(cls, experiment: Experiment, task: LnTask) -> "LnEncoder":
        """Build and initialise the model for the dictionary of ``task``."""
        encoder, cfg = build_encoder(experiment, task.source_dictionary), experiment.model
        embedding = encoder.embed.embedding
        projection = encoder.stack.scheme.projection(cfg.width, embedding.num_embeddings)
        if cfg.share_embeddings:
            projection.weight = embedding.weight
        init.initialise([embedding], [encoder.stack], projection, experiment.init, cfg.branch_gain)
        return cls(encoder, projection)

    def forward(self, src_tokens: Tensor, positions: Tensor) -> tuple[Tensor, None]:
        """Return the logits (positions, vocabulary) at some positions of ``src_tokens`` (batch, time).

        ``positions`` are indices into the flattened ``src_tokens``; logits are computed only there.
        """
        x = self.encoder(src_tokens)["x"].transpose(0, 1)
        chosen = x.flatten(0, 1).index_select(0, positions)
        return self.projection(chosen.to(self.projection.weight.dtype)), None


class LnClassifier(EncoderOnly):
    """Encoder with a linear classifier on the final state of the first token."""

    def __init__(self, encoder: Encoder, classifier: nn.Linear) -> None:
        super().__init__(encoder)
        self.classifier = classifier

    @classmethod
    def build_model(cls, experiment: Experiment, task: LnTask) -> "LnClassifier":
        """Build and initialise the model, and load the pre-trained encoder that the run starts from, if any."""
        encoder, cfg = build_encoder(experiment, task.source_dictionary), experiment.model
        classifier = nn.Linear(cfg.width, TASKS["classification"].classes)
        init.initialise([encoder.embed.embedding], [encoder.stack], classifier, experiment.init, cfg.branch_gain)
        nn.init.zeros_(classifier.bias)
        if experiment.start and experiment.start.path:
            saved = torch.load(experiment.start.path, map_location="cpu", weights_only=True)["model"].items()
            prefix = "encoder."
            encoder.load_state_dict({name[len(prefix) :]: weight for name, weight in saved if name.startswith(prefix)})
        return cls(encoder, classifier)

    def forward(self, src_tokens: Tensor) -> tuple[Tensor, None]:
        """Return the logits (batch, classes) of ``src_tokens`` (batch, time)."""
        return self.classifier(self.encoder(src_tokens)["x"][0].to(self.classifier.weight.dtype)), None


def build_encoder(experiment: Experiment, words: Dictionary) -> Encoder:
    """Return an encoder for a dictionary, not yet initialised."""
    cfg = experiment.model
    embedding = nn.Embedding(len(words), cfg.width, words.pad())
    return Encoder(words, TokenEmbedding(embedding, cfg.dropout), Stack(EncoderLayer, Shape.of(experiment)))
