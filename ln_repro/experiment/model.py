"""The settings of a model: its dimensions, and the weights that it starts from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import model_validator

from ln_repro.experiment.validation import Count, Fraction, Natural, Section


class Model(Section):
    """Dimensions of the Transformer; every one is written out, never left to a preset of fairseq."""

    name: str
    layers: Count
    """Encoder layers, and as many decoder layers."""
    width: Count
    ffn: Count
    heads: Count
    dropout: Fraction = 0.1
    share_embeddings: bool = True
    """One matrix for source, target and softmax (joint vocabulary)."""

    def parameters(self, vocabulary: int, attentions: int = 3, feed_forwards: int = 2, matrices: int = 3) -> int:
        """Return the number of parameters, the norms' own left out: weights and biases of every sub-layer.

        Args:
            vocabulary: words.
            attentions: in a layer of every stack together.
            feed_forwards: the same.
            matrices: of embeddings and softmax where they are not shared.
        """
        attention, feed_forward = 4 * (self.width + 1) * self.width, (2 * self.width + 1) * self.ffn + self.width
        embeddings = (1 if self.share_embeddings else matrices) * vocabulary * self.width
        return embeddings + self.layers * (attentions * attention + feed_forwards * feed_forward)

    @model_validator(mode="after")
    def _heads_divide_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"model.heads: {self.heads} does not divide model.width {self.width}")
        if self.width % 2 or self.width < 4:
            raise ValueError(f"model.width: sinusoidal positions need an even width of at least 4, got {self.width}")
        return self


class Start(Section):
    """The weights of another run that a run begins with; `ln_repro.runner.pretrained` fills in all but ``given``."""

    given: str
    """What the user wrote: RUN@EPOCH, or the path of a file of weights."""
    path: Path | None = None
    sha256: str | None = None
    """Of the file: what an id depends on."""
    run: str | None = None
    """The id of the run that made them, its experiment, its corpus's fingerprint, and when they were written."""
    exp: str | None = None
    data: str | None = None
    epoch: Natural | None = None
    update: Natural | None = None

    @model_validator(mode="before")
    @classmethod
    def _as_given(cls, values: Any) -> Any:
        return values if isinstance(values, Mapping | Start) else {"given": str(values)}
