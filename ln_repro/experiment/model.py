"""The settings of a model: its dimensions, which depend on the task, and its initial weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from ln_repro.experiment.validation import NOT_IN_ARM, NOT_IN_ID, Count, Fraction, Natural, Positive, Section
from ln_repro.system.paths import expanded


@dataclass(frozen=True)
class Task:
    """A training task."""

    decodes: bool  # whether hypotheses are decoded and scored by BLEU
    attentions: int  # attention sub-layers per layer, encoder and decoder together
    feed_forwards: int  # feed-forward sub-layers per layer, encoder and decoder together
    matrices: int  # number of embedding and softmax matrices if they are not shared
    classes: int = 0  # number of classes of the classifier on top of the encoder; 0: no classifier


TASKS = {
    "translation": Task(decodes=True, attentions=3, feed_forwards=2, matrices=3),
    "masked_lm": Task(decodes=False, attentions=1, feed_forwards=1, matrices=2),
    "classification": Task(decodes=False, attentions=1, feed_forwards=1, matrices=1, classes=2),
}
"""Translation by encoder and decoder; BERT's pre-training (paper section 4.1); fine-tuning (section 4.2, figure 5)."""


class Model(Section):
    """Dimensions of the Transformer; all are given explicitly, without presets of fairseq."""

    name: Annotated[str, NOT_IN_ID]
    layers: Annotated[Count, NOT_IN_ARM]  # number of encoder layers and of decoder layers
    width: Count
    ffn: Count
    heads: Count
    dropout: Fraction = 0.1
    share_embeddings: bool = True  # use one matrix for source, target and softmax (joint vocabulary)
    branch_gain: Annotated[Positive, NOT_IN_ARM] = 1.0
    """Factor on the initial value, output and feed-forward matrices, in addition to that of the norm placement."""

    def parameters(self, vocabulary: int, task: Task) -> int:
        """Return the number of weights and biases for a task, without those of the layer norms."""
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


class OwnNorm(Section):
    """A norm placement of the user's own: a class in a Python file (docs/add-a-scheme.md)."""

    name: str  # the name of the class, after any dots
    path: Annotated[Path | None, NOT_IN_ID, Field(exclude=True)] = None
    text: str  # the content of the file, which is read once, so that later edits do not affect the run

    @model_validator(mode="before")
    @classmethod
    def _read(cls, values: Any) -> Any:
        if not isinstance(values, Mapping) or "text" in values or not values.get("path"):
            return values
        try:
            return {**values, "text": expanded(values["path"]).read_text(encoding="utf-8")}
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not UTF-8"
            raise ValueError(f"norm.file: {values['path']} cannot be read ({reason}); give a Python file") from None

    @property
    def class_name(self) -> str:
        """The name of the class in the file."""
        return self.name.rpartition(".")[2]


class Start(Section):
    """The pre-trained weights that a run starts from; `ln_repro.runner.pretrained` fills in all but ``given``."""

    given: Annotated[str, NOT_IN_ID]  # the user's input: RUN@EPOCH
    path: Annotated[Path | None, NOT_IN_ID] = None
    sha256: str | None = None  # checksum of the file
    run: Annotated[str | None, NOT_IN_ID] = None
    """Id of the pre-training run; then its experiment, the fingerprint of its corpus, and the epoch and update."""
    exp: Annotated[str | None, NOT_IN_ID] = None
    data: Annotated[str | None, NOT_IN_ID] = None
    epoch: Annotated[Natural | None, NOT_IN_ID] = None
    update: Annotated[Natural | None, NOT_IN_ID] = None

    @model_validator(mode="before")
    @classmethod
    def _as_given(cls, values: Any) -> Any:
        return values if isinstance(values, Mapping | Start) else {"given": str(values)}
