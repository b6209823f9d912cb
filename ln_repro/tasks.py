"""What a run learns to do, and what follows from it outside the trainer; the trainer's side is in its plug-ins."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from ln_repro.experiment import Evaluation, Experiment, Model


class Task(ABC):
    """What the axis ``task`` of an experiment names."""

    decodes: ClassVar[bool]
    """Whether its runs write hypotheses, and get a BLEU for them."""

    @abstractmethod
    def misfit(self, experiment: "Experiment") -> str | None:
        """Return which of the settings it cannot be done with, in one line."""

    @abstractmethod
    def parameters(self, model: "Model", vocabulary: int) -> int:
        """Return the parameters of its model, the norms' own left out."""

    @abstractmethod
    def scored(self, evaluation: "Evaluation") -> tuple[str, ...]:
        """Return the splits that are decoded and get a BLEU after every epoch."""


class Translation(Task):
    """One language into another, by an encoder and a decoder."""

    decodes = True

    def misfit(self, experiment: "Experiment") -> str | None:
        """Return that there is one language, if so."""
        if experiment.data.name == "text":
            return "data.name: text is in one language, which task=masked_lm learns from; translation takes two"
        return None

    def parameters(self, model: "Model", vocabulary: int) -> int:
        """Return those of two stacks: the decoder's layers attend twice."""
        return model.parameters(vocabulary, attentions=3, feed_forwards=2, matrices=3)

    def scored(self, evaluation: "Evaluation") -> tuple[str, ...]:
        """Return the test split, and the validation split where that is asked for."""
        return ("test", "valid") if evaluation.valid else ("test",)


class MaskedLm(Task):
    """Hidden words of one language, the corpus's target side, by an encoder alone: BERT's task (section 4.1)."""

    decodes = False

    def misfit(self, experiment: "Experiment") -> str | None:
        """Return that something is to be decoded, or that a block of text has no room in a mini-batch."""
        if experiment.eval.valid or experiment.eval.average:
            return "eval.valid, eval.average: task=masked_lm decodes nothing; leave them out"
        if experiment.train.max_tokens < experiment.train.block_tokens:
            return (
                f"train.max_tokens: {experiment.train.max_tokens} has no room for a block of train.block_tokens="
                f"{experiment.train.block_tokens}; give at least as many"
            )
        return None

    def parameters(self, model: "Model", vocabulary: int) -> int:
        """Return those of one stack."""
        return model.parameters(vocabulary, attentions=1, feed_forwards=1, matrices=2)

    def scored(self, evaluation: "Evaluation") -> tuple[str, ...]:
        """Return nothing: there are no hypotheses."""
        return ()


TASKS: dict[str, Task] = {"translation": Translation(), "masked_lm": MaskedLm()}
