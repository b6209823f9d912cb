"""The classification task: a pair of sentences in one block, and a class of it; accuracy is counted, not averaged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.criterions import register_criterion
from fairseq.data import Dictionary, FairseqDataset, data_utils
from fairseq.tasks import register_task
from omegaconf import II
from torch import Tensor

from ln_repro.engine.plugin.loss import LabelSmoothedConfig, LabelSmoothedCrossEntropy
from ln_repro.engine.plugin.masked_lm import MASK
from ln_repro.engine.plugin.task import LnTask, LnTaskConfig, Sums

Item = tuple[int, Tensor, int]
"""A pair's index, its block (time,), and its class."""


class LabelledPairs(FairseqDataset):
    """Blocks ``<bos> sentence <eos> sentence <eos>`` with a class each.

    Args:
        first: the first sentences, each with its end mark.
        second: the second ones.
        classes: of the pairs.
        words: the dictionary.
        seed: of the pairs' order. Which of them share a mini-batch is drawn once, the mini-batches' order every epoch.
    """

    def __init__(self, first: Any, second: Any, classes: Sequence[int], words: Dictionary, seed: int) -> None:
        self.first, self.second, self.classes, self.seed = first, second, classes, seed
        self.bos, self.pad = torch.tensor([words.bos()]), words.pad()
        self.sizes: np.ndarray[Any, np.dtype[Any]] = first.sizes + second.sizes + 1

    def __len__(self) -> int:
        return len(self.classes)

    def __getitem__(self, index: int) -> Item:
        return index, torch.cat([self.bos, self.first[index], self.second[index]]), self.classes[index]

    def collater(self, samples: Sequence[Item]) -> dict[str, Any]:
        """Merge pairs to a mini-batch; its ``ntokens`` are the classes that are asked for."""
        indices, blocks, classes = zip(*samples, strict=True)
        return {
            "id": torch.tensor(indices),
            "nsentences": len(samples),
            "ntokens": len(samples),
            "net_input": {"src_tokens": data_utils.collate_tokens(blocks, self.pad)},
            "target": torch.tensor(classes),
        }

    def num_tokens(self, index: int) -> int:
        """Return the tokens of a pair."""
        return int(self.sizes[index])

    def size(self, index: int) -> int:
        """Return the tokens of a pair."""
        return int(self.sizes[index])

    def ordered_indices(self) -> Any:
        """Return the pairs in an order of chance: a mini-batch of equal lengths would be one of equal difficulty."""
        return np.random.RandomState(self.seed).permutation(len(self))


class Answers(Sums):
    """The sums of a validation, right answers among them."""

    def clear(self) -> None:
        """Start again."""
        super().clear()
        self.correct = 0

    def add(self, log: Mapping[str, Any]) -> None:
        """Add what one mini-batch logged."""
        super().add(log)
        self.correct += int(log["correct"])

    def per_token(self) -> dict[str, float]:
        """Return both losses in bits per pair, and the share of right answers."""
        return {**super().per_token(), "accuracy": self.correct / max(self.tokens, 1)}


@dataclass
class ClassificationConfig(LnTaskConfig):
    """Where the pairs lie, and the weights to start from."""

    data: str = field(default="", metadata={"help": "the folder of a binarised corpus, beside it its text"})
    source_lang: str = field(default="", metadata={"help": "the first sentences"})
    target_lang: str = field(default="", metadata={"help": "the second sentences"})
    start: str = field(default="", metadata={"help": "a file of weights; empty: the model's own draw"})
    seed: int = II("common.seed")


@register_task("ln_classification", dataclass=ClassificationConfig)
class LnClassification(LnTask):
    """Classification of pairs of sentences, with the dictionary of a masked language model."""

    def __init__(self, cfg: ClassificationConfig, dictionary: Dictionary) -> None:
        super().__init__(cfg)
        self.sums = Answers()
        self.start = cfg.start
        self.dictionary = dictionary
        dictionary.add_symbol(MASK)  # which the embedding that a run starts from has

    @classmethod
    def setup_task(cls, cfg: ClassificationConfig, **_: Any) -> "LnClassification":
        """Read the dictionary."""
        return cls(cfg, Dictionary.load(str(Path(cfg.data) / f"dict.{cfg.target_lang}.txt")))

    @property
    def source_dictionary(self) -> Dictionary:
        """Return the only dictionary there is."""
        return self.dictionary

    @property
    def target_dictionary(self) -> None:
        """Return None: classes are no words, and none of them is padding."""

    def load_dataset(self, split: str, **_: Any) -> None:
        """Read the two sides and the classes of a split."""
        folder, sides = Path(self.cfg.data), (self.cfg.source_lang, self.cfg.target_lang)
        name = f"{split}.{'-'.join(sides)}"
        first, second = (data_utils.load_indexed_dataset(str(folder / f"{name}.{side}"), None) for side in sides)
        classes = [int(line) for line in (folder.parent / "text" / f"{split}.label").read_text().split()]
        self.datasets[split] = LabelledPairs(first, second, classes, self.dictionary, self.cfg.seed)

    def targets(self, split: str) -> Any:
        """Return the classes."""
        return [torch.tensor([label]) for label in self.dataset(split).classes]


@register_criterion("ln_classification", dataclass=LabelSmoothedConfig)
class Classified(LabelSmoothedCrossEntropy):
    """The same loss over classes instead of words; right answers are counted."""

    def counted(self, logits: Tensor, target: Tensor) -> dict[str, Tensor]:
        """Return how many answers are right."""
        return {"correct": logits.argmax(dim=1).eq(target).sum()}
