"""The base classes of all tasks, and of those of encoder-only models."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from fairseq.data import Dictionary, FairseqDataset, data_utils
from fairseq.data.indexed_dataset import MMapIndexedDataset
from fairseq.data.iterators import EpochBatchIterator
from fairseq.tasks import FairseqTask
from numpy.typing import NDArray

from ln_repro.errors import UserError
from ln_repro.experiment.settings import Experiment
from ln_repro.model.batch import Log

MASK = "<mask>"


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
        if max_tokens and not decoding and (longest := int(dataset.sizes.max())) > max_tokens:
            raise UserError(f"train.max_tokens: {max_tokens} is too small; the longest example has {longest} tokens")
        return super().get_batch_iterator(dataset, max_tokens, **settings)


class EncoderTask(LnTask):
    """A task of an encoder-only model. Its one dictionary always includes the mask, to fit pre-trained weights."""

    def __init__(self, experiment: Experiment, corpus: Path) -> None:
        super().__init__(experiment, corpus)
        self.dictionary = self.load_words(self.languages[-1])
        self.mask = self.dictionary.add_symbol(MASK)

    @property
    def source_dictionary(self) -> Dictionary:
        return self.dictionary


class Blocks(FairseqDataset):
    """Blocks of tokens with known sizes."""

    sizes: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.sizes)

    def num_tokens(self, index: int) -> int:
        return int(self.sizes[index])

    size = num_tokens

    def num_tokens_vec(self, indices: NDArray[np.int64]) -> NDArray[np.int32]:
        return self.sizes[indices]
