"""The masked-LM task: the corpus's target side in blocks, a part of whose tokens is hidden and asked for."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch
from fairseq.data import (
    Dictionary,
    FairseqDataset,
    LRUCacheDataset,
    MaskTokensDataset,
    PrependTokenDataset,
    TokenBlockDataset,
    data_utils,
)
from fairseq.tasks import register_task
from omegaconf import II
from torch import Tensor

from ln_repro.engine.plugin.task import LnTask, LnTaskConfig

HIDDEN, LEFT, SWAPPED = 0.15, 0.1, 0.1
"""BERT's: the share of tokens that is asked for; of these a tenth is left as it is, a tenth is any other word, and the
rest is the mask."""
MASK = "<mask>"
VALIDATION_SEED = 0
"""Of the masks that every run is validated with, after every epoch."""
Item = tuple[int, Tensor, Tensor]
"""A block's index, what is shown of it, and what was hidden (padding where nothing was), both (time,)."""


class MaskedBlocks(FairseqDataset):
    """Blocks of text with masks that depend on the seed, the epoch and the block alone.

    Args:
        text: the blocks.
        words: their dictionary.
        mask: the index of the mask in it.
        seed: of the masks and of the blocks' order.
        renewed: whether every epoch has masks of its own.
    """

    alone = Lock()
    """fairseq draws masks from NumPy's one generator; the threads that read ahead for training and validation may not
    do so at the same time."""

    def __init__(self, text: Any, words: Dictionary, mask: int, seed: int, renewed: bool) -> None:
        self.text = LRUCacheDataset(text)
        self.pad = words.pad()
        self.seed = seed
        self.renewed = renewed
        self.sizes: np.ndarray[Any, np.dtype[Any]] = text.sizes
        self.shown, self.hidden = (
            MaskTokensDataset(
                self.text, words, self.pad, mask, return_masked_tokens=hidden, seed=seed, mask_prob=HIDDEN,
                leave_unmasked_prob=LEFT, random_token_prob=SWAPPED,
            )
            for hidden in (False, True)
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.text)

    def __getitem__(self, index: int) -> Item:
        with self.alone:
            return index, self.shown[index], self.hidden[index]

    def set_epoch(self, epoch: int) -> None:
        """Hide other tokens from now on."""
        if self.renewed:
            self.shown.set_epoch(epoch)
            self.hidden.set_epoch(epoch)

    def collater(self, samples: Sequence[Item]) -> dict[str, Any]:
        """Merge blocks to a mini-batch; its ``target`` and ``ntokens`` are those of the hidden tokens alone."""
        indices, shown, hidden = zip(*samples, strict=True)
        answers = data_utils.collate_tokens(hidden, self.pad).flatten()
        asked = answers.ne(self.pad).nonzero().squeeze(1)
        return {
            "id": torch.tensor(indices),
            "nsentences": len(samples),
            "ntokens": len(asked),
            "net_input": {"src_tokens": data_utils.collate_tokens(shown, self.pad), "asked": asked},
            "target": answers[asked],
        }

    def num_tokens(self, index: int) -> int:
        """Return the tokens of a block."""
        return int(self.sizes[index])

    def size(self, index: int) -> int:
        """Return the tokens of a block."""
        return int(self.sizes[index])

    def ordered_indices(self) -> Any:
        """Return the blocks by size, those of one size in an order of chance: neighbours in the text are kept apart."""
        chance = np.random.RandomState(self.seed).permutation(len(self))
        return chance[np.argsort(self.sizes[chance], kind="stable")]


@dataclass
class MaskedLmConfig(LnTaskConfig):
    """Where the text lies, and how it is cut."""

    data: str = field(default="", metadata={"help": "the folder of a binarised corpus"})
    source_lang: str = field(default="", metadata={"help": "the other side of the corpus"})
    target_lang: str = field(default="", metadata={"help": "the side that is read"})
    block_tokens: int = field(default=512, metadata={"help": "tokens of a block, the mark of its beginning included"})
    seed: int = II("common.seed")


@register_task("ln_masked_lm", dataclass=MaskedLmConfig)
class LnMaskedLm(LnTask):
    """Masked language modelling of one side of a corpus."""

    def __init__(self, cfg: MaskedLmConfig, dictionary: Dictionary) -> None:
        super().__init__(cfg)
        self.dictionary = dictionary
        self.mask = dictionary.add_symbol(MASK)

    @classmethod
    def setup_task(cls, cfg: MaskedLmConfig, **_: Any) -> "LnMaskedLm":
        """Read the dictionary."""
        return cls(cfg, Dictionary.load(str(Path(cfg.data) / f"dict.{cfg.target_lang}.txt")))

    @property
    def source_dictionary(self) -> Dictionary:
        """Return the only dictionary there is."""
        return self.dictionary

    @property
    def target_dictionary(self) -> Dictionary:
        """Return the only dictionary there is."""
        return self.dictionary

    def load_dataset(self, split: str, **_: Any) -> None:
        """Cut a split into blocks of equal length, sentence after sentence, and begin each with fairseq's mark."""
        cfg, words = self.cfg, self.dictionary
        name = f"{split}.{cfg.source_lang}-{cfg.target_lang}.{cfg.target_lang}"
        sentences = data_utils.load_indexed_dataset(str(Path(cfg.data) / name), words)
        blocks = TokenBlockDataset(
            sentences, sentences.sizes, cfg.block_tokens - 1, pad=words.pad(), eos=words.eos(), break_mode="none"
        )
        training = split == "train"
        self.datasets[split] = MaskedBlocks(
            PrependTokenDataset(blocks, words.bos()), words, self.mask,
            seed=cfg.seed if training else VALIDATION_SEED, renewed=training,
        )  # fmt: skip

    def targets(self, split: str) -> Any:
        """Return the blocks: every token is as likely to be hidden."""
        return self.dataset(split).text
