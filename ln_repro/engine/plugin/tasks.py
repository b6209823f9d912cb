"""The base class of all tasks, and translation, with vectorised collation of mini-batches.

fairseq collates a mini-batch sentence by sentence in Python, which takes 10 to 18 ms for 4096 tokens of short
sentences, in a thread that shares the interpreter with training. This is short compared to an update on a CPU, but not
on a GPU.
"""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset, LanguagePairDataset, data_utils
from fairseq.data.indexed_dataset import MMapIndexedDataset
from fairseq.data.iterators import EpochBatchIterator
from fairseq.tasks import FairseqTask
from numpy.typing import NDArray

from ln_repro.errors import UserError
from ln_repro.experiment.settings import Experiment
from ln_repro.model.batch import Batch, Log

Ids = NDArray[np.int64]


def per_token(logs: Iterable[Log]) -> dict[str, float]:
    """Return both losses of some mini-batches, given by their logs in nats, in bits per target token."""
    sums = {"loss": 0.0, "nll_loss": 0.0, "sample_size": 0.0}
    for log in logs:
        for name in sums:
            sums[name] += float(log[name])
    tokens = max(sums.pop("sample_size"), 1)
    return {name: nats / tokens / math.log(2) for name, nats in sums.items()}


class LnTask(FairseqTask):
    """A task on a binarised corpus, with its own validation metrics: fairseq's meters round to three digits."""

    source_dictionary: Dictionary = None  # like the next one, in place of fairseq's property
    target_dictionary: Dictionary = None

    def __init__(self, experiment: Experiment, corpus: Path) -> None:
        super().__init__(experiment)
        self.experiment = experiment
        self.corpus = corpus
        self.languages = experiment.data.source_lang, experiment.data.target_lang

    def load_words(self, language: str) -> Dictionary:
        return Dictionary.load(str(self.corpus / f"dict.{language}.txt"))

    def sides(self, split: str) -> list[MMapIndexedDataset]:
        """Return the sentences of both sides of a split."""
        prefix = self.corpus / f"{split}.{'-'.join(self.languages)}"
        return [data_utils.load_indexed_dataset(f"{prefix}.{side}") for side in self.languages]

    def metrics(self, logs: Sequence[Log]) -> dict[str, float]:
        """Return the metrics of a validation, given by the logs of its mini-batches."""
        return per_token(logs)

    def get_batch_iterator(
        self, dataset: FairseqDataset, max_tokens: int | None = None, *, decoding: bool = False, **settings: object
    ) -> EpochBatchIterator:
        """Return mini-batches, or raise `UserError` for an example that is longer than one; fairseq would leave it out.

        In decoding, which gives such an example an empty hypothesis, it is left out.
        """
        if max_tokens and not decoding and (longest := int(np.max(dataset.sizes))) > max_tokens:
            raise UserError(f"train.max_tokens: {max_tokens} is too small; the longest example has {longest} tokens")
        return super().get_batch_iterator(dataset, max_tokens, **settings)


def padded(sentences: MMapIndexedDataset, indices: Ids, pad: int, on_the_left: bool) -> Ids:
    """Return some sentences as an array (sentences, maximum length), padded on one side.

    They are read from fairseq's memory map, in which all sentences follow each other, and which processes share.
    """
    tokens = np.frombuffer(sentences._bin_buffer, dtype=sentences._index.dtype)
    starts = sentences._index._pointers[indices, None] // tokens.itemsize  # from bytes
    lengths = sentences.sizes[indices, None]
    longest = lengths.max()
    place = np.arange(longest) - (longest - lengths if on_the_left else 0)
    inside = (place >= 0) & (place < lengths)
    rows = np.full(inside.shape, pad, dtype=np.int64)
    rows[inside] = tokens[(starts + place)[inside]]
    return rows


class Pairs(LanguagePairDataset):
    """fairseq's sentence pairs and mini-batches, collated in a twentieth of the time; an item is its own index."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.src_sizes, self.tgt_sizes = self.sizes.T  # not copies of it

    def __getitem__(self, index: int) -> int:
        return index

    def collater(self, samples: Sequence[int], pad_to_length: None = None) -> Batch:
        """Return the mini-batch of some pairs, sorted by source length, longest first; {} for none.

        ``net_input`` has ``src_tokens``, ``src_lengths`` and ``prev_output_tokens``, the target shifted by one position
        and preceded by <eos>. ``ntokens`` is the number of target tokens.
        """
        if not len(samples):
            return {}
        pad = self.src_dict.pad()
        lengths, order = torch.from_numpy(self.src_sizes[np.asarray(samples)]).long().sort(descending=True)
        indices = np.asarray(samples)[order.numpy()]
        wanted = padded(self.tgt, indices, pad, on_the_left=False)
        before = np.roll(wanted, 1, axis=1)
        before[:, 0] = self.eos
        before[wanted == pad] = pad
        inputs = {
            "src_tokens": torch.from_numpy(padded(self.src, indices, pad, self.left_pad_source)),
            "src_lengths": lengths,
            "prev_output_tokens": torch.from_numpy(before),
        }
        tokens = int(self.tgt_sizes[indices].sum())
        return {"id": torch.from_numpy(indices), "nsentences": len(samples), "ntokens": tokens, "net_input": inputs,
                "target": torch.from_numpy(wanted)}  # fmt: skip


class LnTranslation(LnTask):
    """Translation, with fairseq's mini-batches and decoding."""

    def __init__(self, experiment: Experiment, corpus: Path) -> None:
        super().__init__(experiment, corpus)
        self.source_dictionary, self.target_dictionary = map(self.load_words, self.languages)

    def load_dataset(self, split: str, **_: object) -> None:
        """Load the sentence pairs of a split; those of the test set are not shuffled before they are sorted."""
        source, target = self.sides(split)
        self.datasets[split] = Pairs(
            source, source.sizes, self.source_dictionary, target, target.sizes, self.target_dictionary,
            shuffle=split != "test",
        )  # fmt: skip
