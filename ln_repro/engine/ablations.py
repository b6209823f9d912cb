"""Ablations: parts of our update replaced by stock fairseq's, for benchmarks and tests only."""

import math
from collections.abc import Callable
from typing import Any

import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.optim import FairseqOptimizer
from fairseq.optim.adam import Adam as FairseqAdam
from torch import Tensor

from ln_repro.engine.group import Group
from ln_repro.engine.metric_buffer import MetricBuffer, Update
from ln_repro.engine.plugin import attention, loss, optimizers, task
from ln_repro.system.distributed import Rank


def dense_attention(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None, is_causal: bool) -> Tensor:
    """Compute attention from the full matrix of scores, (batch, heads, time, source time), with the softmax in fp32."""
    scores = q @ k.transpose(2, 3) / math.sqrt(q.size(-1))
    if is_causal:
        attn_mask = torch.full(scores.shape[2:], -math.inf, device=q.device).triu(1)
    if attn_mask is not None:
        scores = scores + attn_mask
    return scores.softmax(-1, dtype=torch.float32).to(v.dtype) @ v


def smoothed_nll(logits: Tensor, target: Tensor, epsilon: float, pad: int) -> tuple[Tensor, Tensor]:
    """Return fairseq's own loss, with the gradient by autograd."""
    sums: tuple[Tensor, Tensor] = label_smoothed_nll_loss(
        torch.log_softmax(logits, -1, dtype=torch.float32), target, epsilon, ignore_index=pad
    )
    return sums


def use_fairseqs_adam() -> None:
    """Use fairseq's Adam, which scales, clips and updates one parameter after the other."""

    def build(self: optimizers.Adam, cfg: optimizers.AdamConfig, params: Any) -> None:
        FairseqOptimizer.__init__(self, cfg)
        self._optimizer = FairseqAdam(params, **self.optimizer_config)

    setattr(optimizers.Adam, "__init__", build)  # noqa: B010 - mypy knows that a method is no variable
    for name in ("step", "multiply_grads", "clip_grad_norm"):
        setattr(optimizers.Adam, name, getattr(FairseqOptimizer, name))


def read_after_every_update() -> None:
    """Read the metrics, and so synchronise with the device, after every update."""
    add = MetricBuffer.add

    def add_and_read(self: MetricBuffer, update: Update) -> None:
        add(self, update)
        self.flush(Group(Rank()))

    setattr(MetricBuffer, "add", add_and_read)  # noqa: B010


PARTS: dict[str, Callable[[], None]] = {
    "attention": lambda: setattr(attention, "scaled_dot_product_attention", dense_attention),
    "loss": lambda: setattr(loss, "label_smoothed_nll", smoothed_nll),
    "optimizer": use_fairseqs_adam,
    "batches": lambda: setattr(task, "Pairs", lambda pairs: pairs),
    "reading": read_after_every_update,
}
"""By name, functions that replace a part for the rest of this process."""
