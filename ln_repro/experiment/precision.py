"""The precision of a run on this machine."""

from ln_repro.errors import UserError
from ln_repro.experiment.settings import Experiment
from ln_repro.system import gpu


def resolve_precision(experiment: Experiment) -> Experiment:
    """Return the experiment with ``precision=auto`` replaced: bf16 on a GPU that supports it, otherwise fp32.

    Raises `UserError` if this machine cannot run it.
    """
    device, precision = experiment.train.device, experiment.precision
    here = gpu.Gpu(None, False) if device == "cpu" else gpu.default()
    if here.problem:
        raise UserError(f"train.device: {here.problem}; {gpu.REMEDY}")
    if device == "cuda" and here.name is None:
        raise UserError("train.device: torch finds no GPU (see ln-repro doctor); use train.device=cpu")
    if precision == "bf16" and here.name is not None and not here.bf16:
        raise UserError(f"precision: {here.name} does not support bf16; use fp32")
    return with_precision(experiment)


def with_precision(experiment: Experiment) -> Experiment:
    """Return the experiment as `resolve_precision` does, even if only another machine can run it."""
    if experiment.precision != "auto":
        return experiment
    bf16 = experiment.train.device != "cpu" and gpu.default().bf16
    return experiment.model_copy(update={"precision": "bf16" if bf16 else "fp32"})
