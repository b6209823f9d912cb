"""Label-smoothed cross-entropy with fairseq's formula."""

from typing import Any

import torch
import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ln_repro.engine.plugin.precision import weights_in
from ln_repro.engine.plugin.tasks import LnTask
from ln_repro.experiment.settings import Experiment
from ln_repro.model.batch import Batch, Log


class SmoothedNll(torch.autograd.Function):
    """The negative log-likelihood with label smoothing, as in fairseq; torch spreads epsilon over all V labels.

    Epsilon is spread over the V-1 wrong ones, each with ``share = eps/(V-1)``: the loss is
    ``(1 - eps - share) * nll + share * sum_v -log p_v``, its gradient ``p_v - (1 - eps - share) [v = target] - share``.
    Autograd would need more passes over (tokens, vocabulary) numbers, which matters on a GPU, but hardly on a CPU.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor, epsilon: float, pad: int) -> tuple[Tensor, Tensor]:
        """Return the loss and, without a gradient, the negative log-likelihood, both summed over tokens, in nats.

        ``logits`` (tokens, vocabulary) are saved in their own precision; where ``target`` (tokens) is ``pad``, it is
        ignored; ``epsilon`` is the label smoothing.
        """
        ignored, share = target.eq(pad), epsilon / (logits.size(-1) - 1)
        log_p = F.log_softmax(logits, dim=-1, dtype=torch.float32)
        nll = -log_p.gather(1, target[:, None]).squeeze(1).masked_fill(ignored, 0.0).sum()
        everywhere = -log_p.sum(dim=-1).masked_fill(ignored, 0.0).sum() if epsilon else nll
        ctx.save_for_backward(logits, target, ignored)
        ctx.wrong, ctx.right = share, 1 - epsilon - share
        ctx.mark_non_differentiable(nll)
        return ctx.right * nll + share * everywhere, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_loss: Tensor, of_nll: Tensor) -> tuple[Tensor, None, None, None]:
        logits, target, ignored = ctx.saved_tensors
        gradient = F.softmax(logits, dim=-1, dtype=torch.float32).sub_(ctx.wrong)
        gradient.scatter_add_(1, target[:, None], gradient.new_full((target.numel(), 1), -ctx.right))
        of_tokens = of_loss.expand(target.shape).masked_fill(ignored, 0.0)[:, None]
        out = gradient if logits.dtype == gradient.dtype else torch.empty_like(logits)  # rounded in the same pass
        return torch.mul(gradient, of_tokens, out=out), None, None, None


class LabelSmoothedCrossEntropy(FairseqCriterion):
    """The training loss: a sum in nats, which the trainer divides by the number of target tokens."""

    def __init__(self, experiment: Experiment, task: LnTask) -> None:
        super().__init__(task)
        self.label_smoothing = experiment.train.label_smoothing
        self.low_precision = torch.bfloat16 if experiment.precision == "bf16" else None

    def forward(self, model: nn.Module, sample: Batch) -> tuple[Tensor, int, Log]:
        """Return the loss, the number of target tokens, and the log, a dict of sums."""
        with weights_in(self.low_precision, model):
            logits, _ = model(**sample["net_input"])
        return self.from_logits(logits, sample)

    def from_logits(self, logits: Tensor, sample: Batch) -> tuple[Tensor, int, Log]:
        """Return what `forward` does, for the logits that the model has given."""
        target = sample["target"].reshape(-1)
        flat = logits.flatten(0, -2)
        loss, nll = SmoothedNll.apply(flat, target, self.label_smoothing, self.padding_idx)  # type: ignore[no-untyped-call]
        tokens = sample["ntokens"]
        log = {"loss": loss.detach(), "nll_loss": nll.detach(), "sample_size": tokens}
        return loss, tokens, {**log, **self.extra_log(logits, target)}

    def extra_log(self, logits: Tensor, target: Tensor) -> dict[str, Tensor]:
        """Return additional entries of the log."""
        return {}
