"""A check that stacked runs are those runs on this machine's GPU, before a stack is trained there."""

import logging
from dataclasses import replace
from itertools import islice

import torch
from fairseq import utils
from fairseq.data import iterators

from ln_repro.engine.inputs import Inputs
from ln_repro.engine.metric_buffer import on_host
from ln_repro.engine.plugin.task import per_token
from ln_repro.engine.stacked.joint import Joint
from ln_repro.engine.trainer import StrictTrainer
from ln_repro.engine.training import parts
from ln_repro.experiment.settings import Schedule
from ln_repro.system.distributed import Rank

UPDATES = 20
RATES = (1e-4, 2e-4)
"""Learning rates of the two runs: small, so that rounding stays rounding."""
TOLERANCE = 1e-4
"""Relative difference of a loss; rounding changes it by about 1e-7."""
logger = logging.getLogger(__name__)


def trusted(inputs: Inputs) -> bool:
    """Return whether two runs like that of ``inputs``, but in fp32, have the same losses stacked as separately.

    They are trained only on a GPU: on a CPU, tests have shown it.
    """
    if inputs.on_cpu or not torch.cuda.is_available():
        return True
    try:
        separate, stacked = losses(inputs, together=False), losses(inputs, together=True)
    except Exception:  # of any kind: vmap rejects a scheme, memory does not suffice
        logger.exception("the check of stacked runs failed; the runs go on one by one")
        return False
    most = max(abs(a - b) / a for a, b in zip(separate, stacked, strict=True))
    logger.info("stacked losses differ from separate ones by %.1e at most", most)
    if most > TOLERANCE:
        logger.warning("the runs go on one by one: expected a difference of at most %.0e", TOLERANCE)
    return most <= TOLERANCE


def losses(inputs: Inputs, together: bool) -> list[float]:
    """Return the losses of both runs in each of `UPDATES` updates."""
    trainers = [_trainer(inputs, rate) for rate in RATES]
    batches = trainers[0].get_train_iterator(1).next_epoch_itr(fix_batches_to_gpus=False, shuffle=True)
    joint, logs = Joint(trainers) if together else None, []
    grouped = iterators.GroupedIterator(batches, inputs.experiment.train.batches_per_update)
    for samples in islice(grouped, UPDATES):
        computed = joint.add_up_gradients(samples) if joint else [None] * len(trainers)
        logs += [trainer.update(samples, its).logs for trainer, its in zip(trainers, computed, strict=True)]
    return [per_token(update)["loss"] for update in on_host(logs)]


def _trainer(inputs: Inputs, rate: float) -> StrictTrainer:
    changes = {"precision": "fp32", "lr": rate, "schedule": Schedule(warmup_updates=0, decay="constant")}
    experiment = inputs.experiment.model_copy(update=changes)
    utils.set_torch_seed(experiment.torch_seed)
    inputs = replace(inputs, experiment=experiment, resume=None)
    trainer = StrictTrainer(inputs, Rank(), *parts(inputs))
    trainer.lr_scheduler.plan(experiment.learning_rate(UPDATES))
    return trainer
