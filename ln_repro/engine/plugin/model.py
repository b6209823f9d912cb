"""The models for fairseq: the Transformer, and its encoder alone with a softmax or a classifier on top."""

import torch
from fairseq.data import Dictionary
from fairseq.models import (
    FairseqEncoder,
    FairseqEncoderDecoderModel,
    FairseqEncoderModel,
    FairseqIncrementalDecoder,
)
from torch import Tensor, nn

from ln_repro.engine.plugin.tasks import LnTask
from ln_repro.experiment.model import TASKS
from ln_repro.experiment.settings import Experiment
from ln_repro.model import init
from ln_repro.model.layers import DecoderLayer, EncoderLayer, Shape, Stack, TokenEmbedding
from ln_repro.model.sub_layers import Cache

Memory = dict[str, Tensor]

MAX_POSITIONS = 1024  # maximum length of a sentence or block, in tokens


class LnTransformer(FairseqEncoderDecoderModel):
    """Encoder-decoder Transformer with a choice of norm placement and initialisation."""

    def __init__(self, experiment: Experiment, task: LnTask) -> None:
        """Build and initialise the model for the dictionaries of ``task``, which are the same in a prepared corpus."""
        shape, cfg = Shape.of(experiment), experiment.model
        source, target = task.source_dictionary, task.target_dictionary
        embeddings = [nn.Embedding(len(source), cfg.width, source.pad())]
        if not cfg.share_embeddings:
            embeddings.append(nn.Embedding(len(target), cfg.width, target.pad()))
        projection = shape.scheme.projection(cfg.width, len(target))
        if cfg.share_embeddings:
            projection.weight = embeddings[0].weight
        encoder = Encoder(source, TokenEmbedding(embeddings[0], cfg.dropout), Stack(EncoderLayer, shape))
        decoder = Decoder(target, TokenEmbedding(embeddings[-1], cfg.dropout), Stack(DecoderLayer, shape), projection)
        super().__init__(encoder, decoder)
        init.initialise(embeddings, [*self.stacks.values()], projection, experiment.init, cfg.branch_gain)

    @property
    def stacks(self) -> dict[str, Stack]:
        return {"encoder": self.encoder.stack, "decoder": self.decoder.stack}


class Encoder(FairseqEncoder):
    """Maps source tokens to their representations."""

    def __init__(self, dictionary: Dictionary, embed: TokenEmbedding, stack: Stack) -> None:
        super().__init__(dictionary)
        self.embed = embed
        self.stack = stack

    def forward(self, src_tokens: Tensor, **_: object) -> Memory:
        """Encode ``src_tokens`` (batch, time) as ``x`` (time, batch, width), with the ``mask`` of `Stack.mask`."""
        padding = src_tokens.eq(self.dictionary.pad())
        x, mask = self.embed(src_tokens).masked_fill(padding[:, :, None], 0.0), self.stack.mask(padding)
        return {"x": self.stack(x.transpose(0, 1), mask), "mask": mask}

    def reorder_encoder_out(self, encoder_out: Memory, new_order: Tensor) -> Memory:
        """Select the sentences ``new_order``; the generator repeats them for the beam and drops finished ones."""
        x, mask = encoder_out["x"], encoder_out["mask"]
        if x.size(1) == new_order.numel():
            return encoder_out  # hypotheses are reordered only within a sentence
        return {"x": x.index_select(1, new_order), "mask": mask.index_select(0, new_order)}

    def max_positions(self) -> int:
        return MAX_POSITIONS


class Decoder(FairseqIncrementalDecoder):
    """Maps previous target tokens to the logits of the next one."""

    def __init__(self, dictionary: Dictionary, embed: TokenEmbedding, stack: Stack, projection: nn.Linear) -> None:
        super().__init__(dictionary)
        self.embed = embed
        self.stack = stack
        self.projection = projection

    def forward(
        self, prev_output_tokens: Tensor, encoder_out: Memory, incremental_state: Cache | None = None, **_: object
    ) -> tuple[Tensor, None]:
        """Return the logits (batch, time, vocabulary) after each of ``prev_output_tokens`` (batch, time).

        With ``incremental_state`` (decoding), only the last ones are returned, so that time is 1.
        """
        x = self.embed(prev_output_tokens, newest_only=incremental_state is not None)
        x = self.stack(x.transpose(0, 1), encoder_out["x"], encoder_out["mask"], incremental_state)
        return self.projection(x.transpose(0, 1).to(self.projection.weight.dtype)), None

    def reorder_incremental_state_scripting(self, incremental_state: Cache, new_order: Tensor) -> None:
        """Reorder every cache with the beam, without fairseq's search of all modules at every step."""
        for attention in list(incremental_state):
            attention.reorder_incremental_state(incremental_state, new_order)

    def max_positions(self) -> int:
        return MAX_POSITIONS


class EncoderOnly(FairseqEncoderModel):
    """An encoder, to which a subclass adds the output layer."""

    def __init__(self, experiment: Experiment, task: LnTask) -> None:
        cfg, words = experiment.model, task.source_dictionary
        embed = TokenEmbedding(nn.Embedding(len(words), cfg.width, words.pad()), cfg.dropout)
        super().__init__(Encoder(words, embed, Stack(EncoderLayer, Shape.of(experiment))))

    @property
    def stacks(self) -> dict[str, Stack]:
        return {"encoder": self.encoder.stack}

    def initialise(self, output: nn.Linear, experiment: Experiment) -> None:
        """Initialise the encoder and its ``output`` layer."""
        embeddings, stacks = [self.encoder.embed.embedding], [self.encoder.stack]
        init.initialise(embeddings, stacks, output, experiment.init, experiment.model.branch_gain)


class LnEncoder(EncoderOnly):
    """Encoder with a softmax over the vocabulary."""

    def __init__(self, experiment: Experiment, task: LnTask) -> None:
        super().__init__(experiment, task)
        embedding = self.encoder.embed.embedding
        self.projection = self.encoder.stack.scheme.projection(embedding.embedding_dim, embedding.num_embeddings)
        if experiment.model.share_embeddings:
            self.projection.weight = embedding.weight
        self.initialise(self.projection, experiment)

    def forward(self, src_tokens: Tensor, positions: Tensor) -> tuple[Tensor, None]:
        """Return the logits (positions, vocabulary) at some positions of ``src_tokens`` (batch, time).

        ``positions`` are indices into the flattened ``src_tokens``; logits are computed only there.
        """
        x = self.encoder(src_tokens)["x"].transpose(0, 1)
        chosen = x.flatten(0, 1).index_select(0, positions)
        return self.projection(chosen.to(self.projection.weight.dtype)), None


class LnClassifier(EncoderOnly):
    """Encoder with a linear classifier on the final state of the first token.

    The encoder has the pre-trained weights that the run starts from, if any.
    """

    def __init__(self, experiment: Experiment, task: LnTask) -> None:
        super().__init__(experiment, task)
        self.classifier = nn.Linear(experiment.model.width, TASKS["classification"].classes)
        self.initialise(self.classifier, experiment)
        nn.init.zeros_(self.classifier.bias)
        if experiment.start and experiment.start.path:
            saved = torch.load(experiment.start.path, map_location="cpu", weights_only=True)["model"].items()
            prefix = "encoder."
            weights = {name.removeprefix(prefix): weight for name, weight in saved if name.startswith(prefix)}
            self.encoder.load_state_dict(weights)

    def forward(self, src_tokens: Tensor) -> tuple[Tensor, None]:
        """Return the logits (batch, classes) of ``src_tokens`` (batch, time)."""
        return self.classifier(self.encoder(src_tokens)["x"][0].to(self.classifier.weight.dtype)), None
