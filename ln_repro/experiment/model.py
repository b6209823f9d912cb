"""The settings of a model: its dimensions, and the weights that it starts from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import model_validator

from ln_repro.experiment.tasks import Task
from ln_repro.experiment.validation import NOT_IN_ID, Count, Fraction, Natural, Section


class Model(Section):
    """Dimensions of the Transformer; every one is written out, never left to a preset of fairseq."""

    name: Annotated[str, NOT_IN_ID]
    layers: Count
    """Encoder layers, and as many decoder layers."""
    width: Count
    ffn: Count
    heads: Count
    dropout: Fraction = 0.1
    share_embeddings: bool = True
    """One matrix for source, target and softmax (joint vocabulary)."""

    def parameters(self, vocabulary: int, task: Task) -> int:
        """Return the number of weights and biases of the model for a task, except those of the layer norms."""
        attention, feed_forward = 4 * (self.width + 1) * self.width, (2 * self.width + 1) * self.ffn + self.width
        embeddings = (1 if self.share_embeddings else task.matrices) * vocabulary * self.width
        layers = self.layers * (task.attentions * attention + task.feed_forwards * feed_forward)
        return embeddings + layers + task.classes * (self.width + 1)

    @model_validator(mode="after")
    def _heads_divide_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"model.heads: {self.heads} does not divide model.width {self.width}")
        if self.width % 2 or self.width < 4:
            raise ValueError(f"model.width: sinusoidal positions need an even width of at least 4, got {self.width}")
        return self


class Start(Section):
    """The pre-trained weights that a run starts from; `ln_repro.runner.pretrained` fills in all but ``given``."""

    given: Annotated[str, NOT_IN_ID]
    """What the user wrote: RUN@EPOCH, or the path of a file of weights."""
    path: Annotated[Path | None, NOT_IN_ID] = None
    sha256: str | None = None
    """Checksum of the file."""
    run: Annotated[str | None, NOT_IN_ID] = None
    """The id of the pre-training run, its experiment, its corpus's fingerprint, and when the file was written."""
    exp: Annotated[str | None, NOT_IN_ID] = None
    data: Annotated[str | None, NOT_IN_ID] = None
    epoch: Annotated[Natural | None, NOT_IN_ID] = None
    update: Annotated[Natural | None, NOT_IN_ID] = None

    @model_validator(mode="before")
    @classmethod
    def _as_given(cls, values: Any) -> Any:
        return values if isinstance(values, Mapping | Start) else {"given": str(values)}
