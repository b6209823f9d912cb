"""Compute gradient statistics at regular intervals, without affecting training."""

from typing import Any

import numpy as np
from fairseq import utils

from ln_repro.engine.plugin.probes import probe
from ln_repro.engine.trainer import StrictTrainer


class Probing:
    """Computes the gradients of the same mini-batches every ``cfg.task.probe_every`` updates (0: never).

    The mini-batches, ``cfg.task.probe_batches`` of the epoch iterator's, are selected by the run's seed.
    """

    def __init__(self, cfg: Any, trainer: StrictTrainer, batches: Any) -> None:
        self.every = cfg.task.probe_every
        self.trainer = trainer
        self.samples: list[Any] = []
        if self.every:
            self.samples = chosen_batches(batches, cfg.task.probe_batches, cfg.common.seed, trainer.cuda)

    def due(self, update: int) -> bool:
        """Return whether a probe is due after ``update`` updates; 0 is before training."""
        return bool(self.every) and update % self.every == 0

    def values(self) -> dict[str, Any]:
        """Return the fields of a ``probe`` event."""
        of = (self.trainer.get_criterion(), self.trainer.get_model())
        values = probe(*of, self.samples, self.trainer.loss_scale)
        return {"name": "gradients", "values": values, "batches": len(self.samples)}


def chosen_batches(batches: Any, number: int, seed: int, cuda: bool) -> list[Any]:
    """Return at most ``number`` mini-batches of an epoch iterator, the same in every process of a run."""
    frozen, dataset = batches.frozen_batches, batches.dataset
    dataset.set_epoch(1)  # a resumed run later sets its own epoch
    chosen = np.random.RandomState(seed).choice(len(frozen), min(number, len(frozen)), replace=False)
    samples = [dataset.collater([dataset[index] for index in frozen[one]]) for one in chosen]
    return [utils.move_to_cuda(sample) if cuda else sample for sample in samples]
