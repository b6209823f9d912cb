"""fairseq's trainer, with what it forgets: the gradient norm, peak memory, one meaning on any number of GPUs."""

from pathlib import Path
from typing import Any

import torch
from fairseq.optim.dynamic_loss_scaler import DynamicLossScaler
from fairseq.trainer import Trainer

FIRST_LOSS_SCALE = 2.0**7
LOSS_SCALE_WINDOW = 2**14
"""Updates without an overflow after which fp16's loss scale doubles (both are fairseq's)."""
STREAMS_APART = 2**32
"""Between the dropout seeds of an update's mini-batches: further than any seed plus update."""


class StrictTrainer(Trainer):
    """fairseq's trainer, keeping the gradient norm at full precision and leaving no crash files behind."""

    gnorm: torch.Tensor
    peak_bytes = 0

    def clip_grad_norm(self, clip_norm: float) -> torch.Tensor:
        """Clip (0: only measure) and remember the norm."""
        self.gnorm = super().clip_grad_norm(clip_norm)
        return self.gnorm

    def set_num_updates(self, num_updates: int) -> None:
        """Take note of the GPU's peak memory, which fairseq forgets after every update."""
        if self.cuda:
            self.peak_bytes = max(self.peak_bytes, torch.cuda.max_memory_allocated())
        super().set_num_updates(num_updates)

    def save_checkpoint(self, filename: str, extra_state: dict[str, Any]) -> None:
        """Save, but not the dump of several hundred megabytes that fairseq leaves after a NaN."""
        if Path(filename).name != "crash.pt":
            extra_state = {**extra_state, "processes": self.data_parallel_world_size, "loss_scale": self.loss_scale}
            self.consolidate_optimizer()
            super().save_checkpoint(filename, extra_state)

    def load_checkpoint(self, filename: str, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        """Load, also where there are more or fewer processes now: each is as far into its share of the epoch."""
        extra: dict[str, Any] | None = super().load_checkpoint(filename, *args, **kwargs)
        if extra:
            position = extra["train_iterator"]
            batches = position["iterations_in_epoch"] * extra.get("processes", 1)
            position["iterations_in_epoch"] = batches // self.data_parallel_world_size
            if self.optimizer.scaler is not None and extra.get("loss_scale"):
                self.optimizer.scaler.loss_scale = extra["loss_scale"]
        return extra

    @property
    def loss_scale(self) -> float | None:
        """fp16's loss scale; None in other arithmetic."""
        scaler = self.optimizer.scaler
        return scaler.loss_scale if scaler is not None else None

    def own_dropout(self, samples: list[Any]) -> list[Any]:
        """Return the mini-batches of this process for one update, each with a dropout seed of its own.

        The first mini-batch of an update has fairseq's seed. The others follow in the order in which one process
        would take them all, so that a run is the same on any number of GPUs. What fills up a shorter share is left
        out, unless there is nothing else: fairseq would ignore the whole update's share for it.
        """
        seed, processes = self.cfg.common.seed + self.get_num_updates(), self.data_parallel_world_size
        own = [
            {**sample, "seed": seed + (number * processes + self.data_parallel_rank) * STREAMS_APART}
            for number, sample in enumerate(samples)
            if sample
        ]
        return own or samples[:1]

    def _build_optimizer(self) -> None:
        super()._build_optimizer()
        if self.cfg.task.precision == "fp16":
            window = LOSS_SCALE_WINDOW // self.data_parallel_world_size // self.cfg.optimization.update_freq[0]
            self._optimizer.scaler = DynamicLossScaler(FIRST_LOSS_SCALE, scale_window=max(window, 1))
