"""Estimate the GPU memory of a run from the shape of its model. This module does not import torch."""

from ln_repro.experiment.model import TASKS
from ln_repro.experiment.settings import Experiment

TOKENS_PER_BATCH = {"cpu": 3000, "cuda": 24000}
"""Maximum size of a batch to decode, in source tokens, padding included."""
SEARCH_BYTES = 4 * 2**30  # maximum memory of a beam search, without the weights
SHORT_SENTENCE = 10  # assumed number of source tokens of a sentence in the largest batches
CONTEXT_BYTES = 2**29  # memory that CUDA and its libraries need in each process
FLOAT = 4


def hypothesis_bytes(layers: int, width: int, vocabulary: int, source: int, target: int) -> int:
    """Return the maximum memory of one hypothesis in the beam search, in fp32.

    Keys and values of ``source`` and ``target`` positions are cached in each layer, and copied layer by layer when the
    beam is reordered. The scores of the vocabulary exist in a few copies.
    """
    return FLOAT * (2 * (layers + 1) * width * (source + target) + 4 * vocabulary)


def run_bytes(experiment: Experiment, vocabulary: int) -> float:
    """Return the estimated GPU memory of a run in bytes: its trainer and, if it decodes, its decoder."""
    model, train, search, task = experiment.model, experiment.train, experiment.eval, TASKS[experiment.task]
    weights = FLOAT * model.parameters(vocabulary, task)
    sub_layers = task.attentions + task.feed_forwards
    activations = model.layers * (6 * sub_layers * model.width + task.feed_forwards * model.ffn) + 4 * vocabulary
    second_derivatives = experiment.probe in ("curvature", "all")
    graphs = 1 + 2 * experiment.probe_batches if second_derivatives else 1
    trainer = CONTEXT_BYTES + 4 * weights + FLOAT * train.max_tokens * activations * graphs  # 4: gradients, two moments
    if not task.decodes:
        return trainer
    target = int(search.max_len_a * SHORT_SENTENCE) + search.max_len_b + 1
    of_hypothesis = hypothesis_bytes(model.layers, model.width, vocabulary, SHORT_SENTENCE, target)
    batch = TOKENS_PER_BATCH["cuda"] // SHORT_SENTENCE * search.beam * of_hypothesis
    return trainer + CONTEXT_BYTES + weights + min(SEARCH_BYTES, batch)
