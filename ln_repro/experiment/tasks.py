"""The properties of each task that matter outside the engine."""

from dataclasses import dataclass

LABELLED = ("mrpc", "rte")
"""Corpora of sentence pairs with a class label each, for ``task=classification``."""


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
