"""Classification of sentence pairs, each in one block, with the accuracy on the whole validation set."""

from collections.abc import Sequence

import numpy as np
import torch
from fairseq.data import Dictionary, data_utils
from fairseq.data.indexed_dataset import MMapIndexedDataset
from numpy.typing import NDArray
from torch import Tensor

from ln_repro.engine.plugin.loss import LabelSmoothedCrossEntropy
from ln_repro.engine.plugin.task import Blocks, EncoderTask, per_token
from ln_repro.model.batch import Batch, Log

Item = tuple[int, Tensor, int]
"""The index of a pair, its block (time,), and its class."""


class LabelledPairs(Blocks):
    """Blocks ``<bos> first <eos> second <eos>``, each with a class, in an order drawn once from ``seed``."""

    def __init__(
        self, first: MMapIndexedDataset, second: MMapIndexedDataset, classes: list[int], words: Dictionary, seed: int
    ) -> None:
        self.first, self.second, self.classes, self.seed = first, second, classes, seed
        self.bos, self.pad = torch.tensor([words.bos()]), words.pad()
        self.sizes = first.sizes + second.sizes + 1

    def __getitem__(self, index: int) -> Item:
        return index, torch.cat([self.bos, self.first[index], self.second[index]]), self.classes[index]

    def collater(self, samples: Sequence[Item]) -> Batch:
        """Return a mini-batch, whose ``ntokens`` is the number of pairs; {} for no pairs."""
        if not samples:
            return {}
        indices, blocks, classes = zip(*samples, strict=True)
        return {
            "id": torch.tensor(indices),
            "nsentences": len(samples),
            "ntokens": len(samples),
            "net_input": {"src_tokens": data_utils.collate_tokens(blocks, self.pad)},
            "target": torch.tensor(classes),
        }

    def ordered_indices(self) -> NDArray[np.int64]:
        """Return the pairs in random order; if they were sorted by length, mini-batches would differ in difficulty."""
        return np.random.RandomState(self.seed).permutation(len(self))


class LnClassification(EncoderTask):
    """Classification of sentence pairs with the dictionary of a masked language model."""

    target_dictionary = None  # the targets are classes, none of which is padding

    def load_dataset(self, split: str, **_: object) -> None:
        classes = [int(line) for line in (self.corpus.parent / "text" / f"{split}.label").read_text().split()]
        first, second = self.sides(split)
        self.datasets[split] = LabelledPairs(first, second, classes, self.dictionary, self.experiment.torch_seed)

    def metrics(self, logs: Sequence[Log]) -> dict[str, float]:
        """Return both losses, in bits per pair, and the accuracy."""
        correct, pairs = (sum(int(log[name]) for log in logs) for name in ("correct", "sample_size"))
        return {**per_token(logs), "accuracy": correct / max(pairs, 1)}


class Classified(LabelSmoothedCrossEntropy):
    """Cross-entropy over classes; correct answers are counted."""

    def counted(self, logits: Tensor, target: Tensor) -> dict[str, Tensor]:
        return {"correct": logits.argmax(dim=1).eq(target).sum()}
