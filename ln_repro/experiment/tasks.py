"""What a run learns to do, and what follows from it outside the trainer; the trainer's side is in its plug-ins."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from ln_repro.experiment.model import Model
    from ln_repro.experiment.settings import Evaluation, Experiment


LABELLED = ("mrpc", "rte")
"""Corpora of pairs of sentences in one language, each with a class."""


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
        """Return that there is one language, if so, or that there are weights to start from."""
        if misfit := only_for_classification(experiment):
            return misfit
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
        if misfit := only_for_classification(experiment):
            return misfit
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


class Classification(Task):
    """Which of two classes a pair of sentences is of, by an encoder and one matrix (section 4.2, figure 5(b, c))."""

    decodes = False

    def misfit(self, experiment: "Experiment") -> str | None:
        """Return that the corpus has no classes, or that something is to be decoded."""
        if experiment.data.name not in LABELLED:
            return (
                f"data.name: task=classification takes {' or '.join(LABELLED)}; {experiment.data.name} has no classes"
            )
        if experiment.eval.valid or experiment.eval.average:
            return "eval.valid, eval.average: task=classification decodes nothing; leave them out"
        return None

    def parameters(self, model: "Model", vocabulary: int) -> int:
        """Return those of one stack under a classifier."""
        return model.parameters(vocabulary, attentions=1, feed_forwards=1, matrices=1) + 2 * (model.width + 1)

    def scored(self, evaluation: "Evaluation") -> tuple[str, ...]:
        """Return nothing: there are no hypotheses."""
        return ()


def only_for_classification(experiment: "Experiment") -> str | None:
    """Return what of the settings makes sense for a classifier alone."""
    if experiment.start is not None:
        return f"start: is for task=classification, this is task={experiment.task}"
    if experiment.data.name in LABELLED:
        return f"data.name: {experiment.data.name} is for task=classification, this is task={experiment.task}"
    return None


TASKS: dict[str, Task] = {"translation": Translation(), "masked_lm": MaskedLm(), "classification": Classification()}
