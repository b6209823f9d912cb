"""fairseq's trainer, with an update of our own that means the same on any number of GPUs."""

import logging
from typing import Any

import torch
from fairseq import utils
from fairseq.optim.dynamic_loss_scaler import DynamicLossScaler
from fairseq.trainer import Trainer

from ln_repro.engine.metric_buffer import Update

FIRST_LOSS_SCALE = 2.0**7
LOSS_SCALE_WINDOW = 2**14
"""Updates without an overflow after which fp16's loss scale doubles (both are fairseq's)."""
SCALER_STATE = ("loss_scale", "_iter", "_last_overflow_iter", "_last_rescale_iter", "_overflows_since_rescale")
"""What changes in fairseq's scaler: the scale, and the updates at which it overflowed and changed."""
STREAMS_APART = 2**32 + 2_654_435_769
"""Between the dropout seeds of an update's mini-batches: further than any seed plus update, also by the low 32 bits, of
which alone a CPU's generator takes notice. These go round 2^32 in steps of the golden section: the first thousand
multiples lie more than a million updates apart."""
logger = logging.getLogger(__name__)


class Underflow(Exception):
    """fp16's loss scale has fallen to its minimum."""


class StrictTrainer(Trainer):
    """fairseq's trainer, with an update that does not wait for the device, except in fp16."""

    def begin_epoch(self, epoch: int) -> None:
        """Begin an epoch; a validation has gone before, without dropout."""
        super().begin_epoch(epoch)
        self.model.train()
        self.criterion.train()

    def update(self, samples: list[Any]) -> Update | None:
        """Take one update over mini-batches, as fairseq's ``train_step`` does, but without reading a number.

        fairseq looks at the losses and at the gradient's norm after every update, and so waits until it is done. In
        fp16 the norm is read here too: the loss scale depends on it.

        Returns:
            What is left to be read, or None if fp16 has left the update out.

        Raises:
            Underflow: fp16 has left out so many that the loss scale cannot get any smaller.
        """
        lr = self.get_lr()
        self.zero_grad()
        logs, tokens = self._add_up_gradients(samples)
        self.optimizer.all_reduce_grads(self.model)
        self.optimizer.multiply_grads(self.data_parallel_world_size / tokens)
        try:
            gnorm = self.clip_grad_norm(self.cfg.optimization.clip_norm)
        except OverflowError as error:
            logger.info(f"gradient overflow, this update is left out: {error}")
            return None
        except FloatingPointError as error:
            raise Underflow(str(error)) from error
        self.optimizer.step()
        self.set_num_updates(self.get_num_updates() + 1)
        return Update(self.get_num_updates(), lr, logs, gnorm)

    def _add_up_gradients(self, samples: list[Any]) -> tuple[list[dict[str, Any]], torch.Tensor | float]:
        """Return what the mini-batches log, and their target tokens: those of all processes, 1 where there are none."""
        logs, tokens, ignored = [], 0, False
        for sample in samples:
            sample, ignored = self._prepare_sample(sample)
            if "seed" in sample:
                utils.set_torch_seed(sample["seed"])
            loss, size, log = self.criterion(self.model, sample)
            self.optimizer.backward(loss * 0 if ignored else loss)
            logs.append(log)
            tokens += size
        if self.data_parallel_world_size > 1:
            logs, (tokens,) = self._aggregate_logging_outputs(logs, 0 if ignored else tokens, ignore=ignored)
        return logs, tokens.clamp(min=1) if isinstance(tokens, torch.Tensor) else max(tokens, 1)

    def save_checkpoint(self, filename: str, extra_state: dict[str, Any]) -> None:
        """Save, also what a resume with more or fewer processes, or in fp16, needs."""
        scaler = self.optimizer.scaler
        known = {name: getattr(scaler, name) for name in SCALER_STATE} if scaler is not None else {}
        extra_state = {**extra_state, "processes": self.data_parallel_world_size, "scaler": known}
        self.consolidate_optimizer()
        super().save_checkpoint(filename, extra_state)

    def load_checkpoint(self, filename: str, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        """Load, also where there are more or fewer processes now: each is as far into its share of the epoch."""
        extra: dict[str, Any] | None = super().load_checkpoint(filename, *args, **kwargs)
        if extra:
            position = extra["train_iterator"]
            batches = position["iterations_in_epoch"] * extra.get("processes", 1)
            position["iterations_in_epoch"] = batches // self.data_parallel_world_size
            for name, value in extra.get("scaler", {}).items():
                setattr(self.optimizer.scaler, name, value)
        return extra

    @property
    def loss_scale(self) -> float | None:
        """fp16's loss scale; None in other arithmetic."""
        scaler = self.optimizer.scaler
        return scaler.loss_scale if scaler is not None else None

    def seed_microbatches(self, samples: list[Any]) -> list[Any]:
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
        if getattr(self.cfg.optimizer, "equal_layer_norms", False):  # an optimizer of fairseq's own has no such setting
            stacks = self.get_model().stacks.values()
            self._optimizer.layers = [[*layer.parameters()] for stack in stacks for layer in stack.layers]
        if self.cfg.task.precision == "fp16":
            window = LOSS_SCALE_WINDOW // self.data_parallel_world_size // self.cfg.optimization.update_freq[0]
            self._optimizer.scaler = DynamicLossScaler(FIRST_LOSS_SCALE, scale_window=max(window, 1))
