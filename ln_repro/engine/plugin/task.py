"""The base classes of all tasks and of encoder-only tasks, and the translation task."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fairseq.data import Dictionary, FairseqDataset
from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import FairseqTask, register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from omegaconf import II

from ln_repro.engine.plugin.pairs import Pairs
from ln_repro.errors import UserError

MASK = "<mask>"


@dataclass
class LnTaskConfig(FairseqDataclass):
    """Precision, divergence rule, checkpoints and probes."""

    precision: str = "fp32"  # fp32, or bf16 with fp32 parameters
    divergence_updates: int = 0  # updates between the validations that the rule compares; 0: no rule
    unigram_bits: float = math.inf  # entropy of the training targets, for that rule
    save_minutes: float = 10.0  # maximum minutes between two checkpoints
    probe: str = "gradients"  # gradients, updates, curvature, collapse or all
    probe_every: int = 0  # updates between two probes; 0: none
    probe_batches: int = 5  # mini-batches per probe
    start: str = ""  # file of pre-trained weights to start from; empty: none


def per_token(logs: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return both losses of some mini-batches, given by their logs in nats, in bits per target token."""
    sums = {"loss": 0.0, "nll_loss": 0.0, "sample_size": 0.0}
    for log in logs:
        for name in sums:
            sums[name] += float(log[name])
    tokens = max(sums.pop("sample_size"), 1)
    return {name: nats / tokens / math.log(2) for name, nats in sums.items()}


class LnTask(FairseqTask):
    """A task with its own validation metrics, because fairseq's meters round to three digits."""

    def metrics(self, logs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Return the metrics of a validation, given by the logs of its mini-batches."""
        return per_token(logs)

    def get_batch_iterator(
        self, dataset: Any, max_tokens: int | None = None, *, decoding: bool = False, **settings: Any
    ) -> Any:
        """Return mini-batches, or raise `UserError` for an example that is longer than one; fairseq would leave it out.

        In decoding, which gives such an example an empty hypothesis, it is left out.
        """
        if max_tokens and not decoding and (longest := int(dataset.sizes.max())) > max_tokens:
            raise UserError(f"train.max_tokens: {max_tokens} is too small; the longest example has {longest} tokens")
        return super().get_batch_iterator(dataset, max_tokens, **settings)


@dataclass
class EncoderTaskConfig(LnTaskConfig):
    """The corpus."""

    data: str = ""  # folder of the binarised corpus
    source_lang: str = ""  # first side of the corpus
    target_lang: str = ""  # second side of the corpus
    seed: int = II("common.seed")


class EncoderTask(LnTask):
    """A task of an encoder-only model. Its one dictionary always includes the mask, to fit pre-trained weights."""

    def __init__(self, cfg: EncoderTaskConfig, dictionary: Dictionary) -> None:
        super().__init__(cfg)
        self.dictionary = dictionary
        self.mask = dictionary.add_symbol(MASK)

    @classmethod
    def setup_task(cls, cfg: EncoderTaskConfig, **_: Any) -> "EncoderTask":
        return cls(cfg, Dictionary.load(str(Path(cfg.data) / f"dict.{cfg.target_lang}.txt")))

    @property
    def source_dictionary(self) -> Dictionary:
        return self.dictionary


class Blocks(FairseqDataset):
    """Blocks of tokens with known sizes."""

    sizes: np.ndarray[Any, np.dtype[Any]]

    def __len__(self) -> int:
        return len(self.sizes)

    def num_tokens(self, index: int) -> int:
        return int(self.sizes[index])

    size = num_tokens

    def num_tokens_vec(self, indices: Any) -> Any:
        return self.sizes[indices]


@dataclass
class LnTranslationConfig(LnTaskConfig, TranslationConfig):
    """Settings of `LnTask` and of fairseq's translation task."""


@register_task("ln_translation", dataclass=LnTranslationConfig)
class LnTranslation(LnTask, TranslationTask):
    """Translation, with fairseq's data and decoding."""

    def load_dataset(self, split: str, *given: Any, **settings: Any) -> None:
        super().load_dataset(split, *given, **settings)
        self.datasets[split] = Pairs(self.datasets[split])
