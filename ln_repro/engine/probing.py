"""Looking at a model in training every so many updates, without touching the training."""

from typing import Any

import numpy as np
from fairseq import utils

from ln_repro.engine.plugin.probes import probe
from ln_repro.engine.trainer import StrictTrainer


class Probing:
    """Takes the gradients of the same few mini-batches again and again.

    Args:
        cfg: ``cfg.task.probe_every`` updates apart (0: never), over ``cfg.task.probe_batches`` mini-batches.
        trainer: whose model is looked at.
        batches: the epoch's iterator; which mini-batches are taken is decided by the run's seed.
    """

    def __init__(self, cfg: Any, trainer: StrictTrainer, batches: Any) -> None:
        self.every = cfg.task.probe_every
        self.trainer = trainer
        self.samples: list[Any] = []
        if self.every:
            self.samples = chosen_batches(batches, cfg.task.probe_batches, cfg.common.seed, trainer.cuda)

    def due(self, update: int) -> bool:
        """Return whether to look after so many updates; 0 is before the first."""
        return bool(self.every) and update % self.every == 0

    def look(self) -> dict[str, Any]:
        """Return the values of a ``probe`` event."""
        of = (self.trainer.get_criterion(), self.trainer.get_model())
        values = probe(*of, self.samples, self.trainer.loss_scale)
        return {"name": "gradients", "values": values, "batches": len(self.samples)}


def chosen_batches(batches: Any, number: int, seed: int, cuda: bool) -> list[Any]:
    """Return so many mini-batches of an epoch's iterator, or as many as it has: the same in every process of a run."""
    frozen, dataset = batches.frozen_batches, batches.dataset
    dataset.set_epoch(1)  # whichever epoch a resumed run goes on with, and sets when it does
    chosen = np.random.RandomState(seed).choice(len(frozen), min(number, len(frozen)), replace=False)
    samples = [dataset.collater([dataset[index] for index in frozen[one]]) for one in chosen]
    return [utils.move_to_cuda(sample) if cuda else sample for sample in samples]
