"""Dictionaries, losses and mini-batches that several tests of the engine are made of."""

from types import SimpleNamespace

import torch
from fairseq.data import Dictionary

from ln_repro.engine.plugin.loss import LabelSmoothedCrossEntropy


def dictionary(size):
    """Return a dictionary of some size, with fairseq's own four symbols: <s>, <pad>, </s>, <unk>, w0, w1, ..."""
    words = Dictionary()
    for number in range(size - len(words)):
        words.add_symbol(f"w{number}")
    return words


def criterion(smoothing=0.1, precision="fp32", kind=LabelSmoothedCrossEntropy, target=dictionary(4)):  # noqa: B008
    """Return the training loss, of targets of a dictionary, or of classes if ``target`` is None."""
    return kind(SimpleNamespace(target_dictionary=target, cfg=SimpleNamespace(precision=precision)), smoothing)


def sample(seed, sentences=3, length=6):
    """Return a mini-batch for translation of random tokens from 4 to 39."""
    tokens = torch.randint(4, 40, (sentences, length), generator=torch.Generator().manual_seed(seed))
    inputs = {"src_tokens": tokens, "src_lengths": torch.tensor([length] * sentences), "prev_output_tokens": tokens}
    return {"net_input": inputs, "target": tokens.roll(-1, 1), "ntokens": tokens.numel()}
