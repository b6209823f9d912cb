"""Compute statistics of gradients, updates, curvature and collapse at regular intervals, without affecting training."""

from collections.abc import Iterator
from functools import partial

import numpy as np
from fairseq import utils
from fairseq.data.iterators import EpochBatchIterator
from torch import Tensor

from ln_repro.engine.plugin.optimizers import preconditioner, threshold
from ln_repro.engine.trainer import StrictTrainer
from ln_repro.model.batch import Batch
from ln_repro.model.probes.collapse import collapse
from ln_repro.model.probes.curvature import Sharpness, mean_loss
from ln_repro.model.probes.norms import probe, relative_changes
from ln_repro.system.files import Json


class Probing:
    """Computes the statistics that ``probe`` names on the same mini-batches every ``every`` updates.

    The mini-batches, ``probe_batches`` of the epoch iterator's, are selected by the run's seed; for collapse, they are
    some of the validation set's, the same for all runs with this seed. If anything but gradients is probed, probes are
    also computed after 1, 2, 4, 8, ... updates, when training changes fastest.
    """

    def __init__(self, trainer: StrictTrainer, batches: EpochBatchIterator) -> None:
        experiment = trainer.experiment
        chosen = experiment.probe
        self.every = experiment.every if chosen != "none" else 0
        self.kinds = ("gradients", "updates", "curvature") if chosen == "all" else (chosen,)
        self.trainer = trainer
        self.before: list[Tensor] = []  # the parameters before the update that is to be compared with them
        self.sharpness = Sharpness()
        self.samples: list[Batch] = []
        if self.every:
            seed = experiment.torch_seed
            if chosen == "collapse":
                batches, seed = trainer.get_valid_iterator("valid"), 1
            self.samples = chosen_batches(batches, experiment.probe_batches, seed, trainer.cuda)

    def due(self, update: int) -> bool:
        """Return whether a probe is due after ``update`` updates; 0 is before training."""
        doubled = update & (update - 1) == 0 and self.kinds != ("gradients",)
        return bool(self.every) and (update % self.every == 0 or doubled)

    def begin_update(self, update: int) -> None:
        """Keep the parameters before the update with this number, if its changes are to be computed.

        Where a stack is given new weights after the update, these would be its changes, so there are none.
        """
        schedule = self.trainer.experiment.schedule
        reset = schedule.resets_stack and update == schedule.step_update
        if self.due(update) and "updates" in self.kinds and not reset:
            self.before = [parameter.detach().clone() for parameter in self.trainer.get_model().parameters()]

    def values(self) -> Iterator[Json]:
        """Yield the fields of each ``probe`` event."""
        compute = {"gradients": self._gradients, "updates": self._changes, "curvature": self._curvature,
                   "collapse": self._collapse}  # fmt: skip
        for kind in self.kinds:
            if values := compute[kind]():
                yield {"name": kind, "values": values, "batches": len(self.samples)}

    def _gradients(self) -> Json:
        return probe(self.trainer.get_criterion(), self.trainer.get_model(), self.samples)

    def _changes(self) -> Json:
        before, self.before = self.before, []
        model = self.trainer.get_model().eval()
        values = relative_changes(model, before, self.samples) if before else {}
        model.train()
        return values

    def _collapse(self) -> Json:
        pad = self.trainer.task.source_dictionary.pad()
        return collapse(self.trainer.get_criterion(), self.trainer.get_model(), self.samples, pad)

    def _curvature(self) -> Json:
        """Return the sharpness for the next step, and its product with the learning rate beside the threshold.

        Nothing is measured if gradients are scaled or clipped or steps capped: the preconditioner includes none of it.
        """
        trainer, optimizer = self.trainer, self.trainer.optimizer
        if optimizer.layers or optimizer.cfg.max_relative_update or trainer.experiment.train.clip_norm:
            return {}
        model = trainer.get_model().eval()
        parameters = [*optimizer.params]
        losses = [partial(mean_loss, trainer.get_criterion(), model, sample) for sample in self.samples]
        value, products = self.sharpness(parameters, losses, partial(preconditioner, optimizer, parameters))
        model.train()
        rate = trainer.get_lr()
        return {"sharpness": value, "rate_times_sharpness": rate * value, "threshold": threshold(optimizer),
                "products": products}  # fmt: skip


def chosen_batches(batches: EpochBatchIterator, count: int, seed: int, cuda: bool) -> list[Batch]:
    """Return at most ``count`` mini-batches of an epoch iterator, the same in every process of a run."""
    frozen, dataset = batches.frozen_batches, batches.dataset
    dataset.set_epoch(1)  # a resumed run later sets its own epoch
    chosen = np.random.RandomState(seed).choice(len(frozen), min(count, len(frozen)), replace=False)
    samples = [dataset.collater([dataset[sentence] for sentence in frozen[batch]]) for batch in chosen]
    return [utils.move_to_cuda(sample) if cuda else sample for sample in samples]
