"""What every task has, mixed precision and sums that can be read at full precision; and the translation task."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.tasks import FairseqTask, register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from ln_repro.engine.plugin.loss import bits
from ln_repro.engine.plugin.pairs import Pairs


@dataclass
class LnTaskConfig(FairseqDataclass):
    """The precision of the arithmetic, when to give up, and what to look at."""

    precision: str = field(default="fp32", metadata={"help": "fp32, or bf16, fp16: autocast over fp32 parameters"})
    divergence_rule: str = field(default="never", metadata={"help": "what counts as lost"})
    divergence_updates: int = field(
        default=2000, metadata={"help": "updates between the validations it judges by, at least"}
    )
    probe_every: int = field(default=0, metadata={"help": "updates between two gradient probes, 0: none"})
    probe_batches: int = field(default=5, metadata={"help": "mini-batches of a probe"})


class Sums:
    """Loss in nats and target tokens, added up since the last `clear`."""

    def __init__(self, logs: Iterable[Mapping[str, Any]] = ()) -> None:
        self.clear()
        for log in logs:
            self.add(log)

    def clear(self) -> None:
        """Start again."""
        self.loss = self.nll_loss = 0.0
        self.tokens = 0

    def add(self, log: Mapping[str, Any]) -> None:
        """Add what one mini-batch logged."""
        self.loss += float(log["loss"])
        self.nll_loss += float(log["nll_loss"])
        self.tokens += int(log["sample_size"])

    def per_token(self) -> dict[str, float]:
        """Return both losses in bits per target token."""
        tokens = max(self.tokens, 1)
        return {"loss": bits(self.loss / tokens), "nll_loss": bits(self.nll_loss / tokens)}


class LnTask(FairseqTask):
    """Sums losses itself, because fairseq's meters round to three digits."""

    def __init__(self, cfg: LnTaskConfig, *dictionaries: Any) -> None:
        super().__init__(cfg, *dictionaries)
        self.sums = Sums()
        self.start = ""
        """The file of the weights that the model begins with, if there is one."""

    def targets(self, split: str) -> Any:
        """Return the sentences or blocks whose tokens are predicted, by index."""
        raise NotImplementedError

    def reduce_metrics(self, logging_outputs: list[dict[str, Any]], criterion: Any) -> None:
        """Add up the losses of a validation; fairseq's own meters get a copy."""
        for log in logging_outputs:
            self.sums.add(log)
        metrics.log_scalar("loss", self.sums.per_token()["loss"])


@dataclass
class LnTranslationConfig(LnTaskConfig, TranslationConfig):
    """fairseq's translation task, and ours."""


@register_task("ln_translation", dataclass=LnTranslationConfig)
class LnTranslation(LnTask, TranslationTask):
    """Translation; data and decoding are fairseq's."""

    def load_dataset(self, split: str, *given: Any, **settings: Any) -> None:
        """Load the pairs of sentences of ``split``."""
        super().load_dataset(split, *given, **settings)
        self.datasets[split] = Pairs(self.datasets[split])

    def targets(self, split: str) -> Any:
        """Return the target sentences."""
        return self.dataset(split).tgt
