"""Label-smoothed cross-entropy by fairseq's formula."""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from torch import Tensor, nn

LOW_PRECISION = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass
class LabelSmoothedConfig(FairseqDataclass):
    """Label smoothing."""

    label_smoothing: float = field(default=0.1, metadata={"help": "epsilon, spread over the wrong labels"})


def label_smoothed_nll(logits: Tensor, target: Tensor, epsilon: float, pad: int) -> tuple[Tensor, Tensor]:
    """Return the smoothed and the plain negative log-likelihood, summed over tokens, in nats.

    Epsilon is spread over the V-1 wrong labels, as in fairseq (torch spreads it over all V):
    ``(1 - eps - eps/(V-1)) * nll + eps/(V-1) * sum_v -log p_v``.

    Args:
        logits: (tokens, vocabulary).
        target: (tokens), ``pad`` where there is none.
        epsilon: label smoothing.
        pad: the label to leave out.
    """
    log_p = F.log_softmax(logits.float(), dim=-1)
    nll = F.nll_loss(log_p, target, ignore_index=pad, reduction="sum")
    if epsilon == 0:
        return nll, nll
    each = epsilon / (logits.size(-1) - 1)
    everywhere = -log_p.sum(dim=-1).masked_fill(target.eq(pad), 0.0).sum()
    return (1 - epsilon - each) * nll + each * everywhere, nll


@register_criterion("ln_cross_entropy", dataclass=LabelSmoothedConfig)
class LabelSmoothedCrossEntropy(FairseqCriterion):
    """The training loss: a sum in nats, which the trainer divides by the number of target tokens."""

    def __init__(self, task: Any, label_smoothing: float) -> None:
        super().__init__(task)
        self.label_smoothing = label_smoothing
        self.low_precision = LOW_PRECISION.get(task.cfg.precision)

    def forward(self, model: nn.Module, sample: dict[str, Any]) -> tuple[Tensor, int, dict[str, Any]]:
        """Return the loss, its number of target tokens, and the sums that `reduce_metrics` adds up."""
        target = sample["target"].reshape(-1)
        with torch.autocast(target.device.type, self.low_precision, enabled=self.low_precision is not None):
            logits, _ = model(**sample["net_input"])
        loss, nll = label_smoothed_nll(
            logits.reshape(target.numel(), -1), target, self.label_smoothing, self.padding_idx
        )
        tokens = sample["ntokens"]
        log = {"loss": loss.detach(), "nll_loss": nll.detach(), "ntokens": tokens, "sample_size": tokens}
        return loss, tokens, log

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """All that is logged is a sum."""
        return True


def bits(nats: float) -> float:
    """Convert nats to bits, fairseq's unit for every reported loss."""
    return nats / math.log(2)
