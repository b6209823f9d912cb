"""BERT's tasks: masked language modelling, and its fine-tuning on pairs of sentences (paper sections 4.1 and 4.2)."""

from collections.abc import Sequence
from pathlib import Path
from threading import Lock

import numpy as np
import torch
from fairseq import data
from fairseq.data import Dictionary, FairseqDataset, data_utils
from numpy.typing import NDArray
from torch import Tensor

from ln_repro.engine.plugin.loss import LabelSmoothedCrossEntropy
from ln_repro.engine.plugin.tasks import LnTask, per_token
from ln_repro.errors import UserError
from ln_repro.experiment.settings import Experiment
from ln_repro.model.batch import Batch, Log

MASK = "<mask>"
PREDICTED, UNCHANGED, RANDOM = 0.15, 0.1, 0.1
"""BERT's share of tokens to predict; of these, a tenth is unchanged, a tenth is replaced by a random word, and the rest
by the mask."""
VALIDATION_SEED = 0  # seed of the masks of the validation set, the same for all runs and epochs
Item = tuple[int, Tensor, Tensor]
"""The index of a block, its input tokens, and its target tokens (padding elsewhere), both (time,)."""


class EncoderTask(LnTask):
    """A task of an encoder-only model. Its one dictionary always includes the mask, to fit pre-trained weights."""

    def __init__(self, experiment: Experiment, corpus: Path) -> None:
        super().__init__(experiment, corpus)
        self.source_dictionary = self.load_words(self.languages[-1])
        self.mask = self.source_dictionary.add_symbol(MASK)


class MaskedBlocks(FairseqDataset):
    """Blocks of text with masks that depend only on the seed, the epoch and the block.

    ``mask`` is the index of the mask in the dictionary, and the masks change every epoch if they are ``renewed``.
    """

    lock = Lock()
    """fairseq draws masks, and the order of an epoch, from NumPy's global generator, and the prefetching threads of
    training and validation, or of another run in a stack, must not do so at the same time."""

    def __init__(self, text: FairseqDataset, words: Dictionary, mask: int, seed: int, renewed: bool) -> None:
        self.text = data.LRUCacheDataset(text)
        self.pad = words.pad()
        self.seed = seed
        self.renewed = renewed
        self.sizes = text.sizes
        self.inputs, self.targets = (
            data.MaskTokensDataset(
                self.text, words, self.pad, mask, return_masked_tokens=targets, seed=seed, mask_prob=PREDICTED,
                leave_unmasked_prob=UNCHANGED, random_token_prob=RANDOM,
            )
            for targets in (False, True)
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.sizes)

    def num_tokens(self, index: int) -> int:
        return int(self.sizes[index])

    size = num_tokens

    def __getitem__(self, index: int) -> Item:
        with self.lock:
            return index, self.inputs[index], self.targets[index]

    def set_epoch(self, epoch: int) -> None:
        """Draw the masks of an epoch, if they change."""
        if self.renewed:
            self.inputs.set_epoch(epoch)
            self.targets.set_epoch(epoch)

    def collater(self, samples: Sequence[Item]) -> Batch:
        """Return a mini-batch, whose ``target`` and ``ntokens`` cover only the tokens to predict; {} for no blocks."""
        if not samples:
            return {}
        indices, inputs, targets = zip(*samples, strict=True)
        target = data_utils.collate_tokens(targets, self.pad).flatten()
        positions = target.ne(self.pad).nonzero().squeeze(1)
        return {
            "id": torch.tensor(indices),
            "ntokens": len(positions),
            "net_input": {"src_tokens": data_utils.collate_tokens(inputs, self.pad), "positions": positions},
            "target": target[positions],
        }

    def ordered_indices(self) -> NDArray[np.int64]:
        """Return the blocks by size; those of equal size in random order, which separates neighbours in the text."""
        order = np.random.RandomState(self.seed).permutation(len(self))
        return order[np.argsort(self.sizes[order], kind="stable")]


class LnMaskedLm(EncoderTask):
    """Masked language modelling of the target side of a corpus."""

    def __init__(self, experiment: Experiment, corpus: Path) -> None:
        super().__init__(experiment, corpus)
        self.target_dictionary = self.source_dictionary

    def load_dataset(self, split: str, **_: object) -> None:
        """Cut the concatenated sentences of a split into blocks of equal length, each of which begins with <s>."""
        words, size = self.source_dictionary, self.experiment.train.block_tokens - 1
        sentences = self.sides(split)[-1]
        blocks = data.TokenBlockDataset(
            sentences, sentences.sizes, size, pad=words.pad(), eos=words.eos(), break_mode="none"
        )
        training = split == "train"
        masked = self.datasets[split] = MaskedBlocks(
            data.PrependTokenDataset(blocks, words.bos()),
            words,
            self.mask,
            seed=self.experiment.torch_seed if training else VALIDATION_SEED,
            renewed=training,
        )
        if not training and not any(masked[number][2].ne(words.pad()).any() for number in range(len(masked))):
            raise UserError(f"data.{split}: no token of so short a text is masked; give a longer one")


def labelled_pairs(
    first: FairseqDataset, second: FairseqDataset, classes: list[int], words: Dictionary, seed: int
) -> data.SortDataset:
    """Return blocks ``<bos> first <eos> second <eos>``, each with a class, in an order drawn once from ``seed``.

    If they were sorted by length, mini-batches would differ in difficulty. ``ntokens`` is the number of pairs.
    """
    blocks = data.PrependTokenDataset(data.ConcatSentencesDataset(first, second), words.bos())
    examples = {
        "id": data.IdDataset(),
        "ntokens": data.NumSamplesDataset(),
        "net_input": {"src_tokens": data.RightPadDataset(blocks, words.pad())},
        "target": data.RawLabelDataset(classes),
    }
    order = np.random.RandomState(seed).permutation(len(classes))
    return data.SortDataset(data.NestedDictionaryDataset(examples, sizes=blocks.sizes), sort_order=order.argsort())


class LnClassification(EncoderTask):
    """Classification of sentence pairs with the dictionary of a masked language model."""

    target_dictionary = None  # the targets are classes, none of which is padding

    def load_dataset(self, split: str, **_: object) -> None:
        classes = [int(line) for line in (self.corpus.parent / "text" / f"{split}.label").read_text().split()]
        first, second = self.sides(split)
        words, seed = self.source_dictionary, self.experiment.torch_seed
        self.datasets[split] = labelled_pairs(first, second, classes, words, seed)

    def metrics(self, logs: Sequence[Log]) -> dict[str, float]:
        """Return both losses, in bits per pair, and the accuracy on the whole validation set."""
        correct, pairs = (sum(int(log[name]) for log in logs) for name in ("correct", "sample_size"))
        return {**per_token(logs), "accuracy": correct / max(pairs, 1)}


class Classified(LabelSmoothedCrossEntropy):
    """Cross-entropy over classes; correct answers are counted."""

    def extra_log(self, logits: Tensor, target: Tensor) -> dict[str, Tensor]:
        return {"correct": logits.argmax(dim=1).eq(target).sum()}
