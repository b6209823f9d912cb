"""What the probes of a run measured."""

import math
from collections.abc import Iterator, Sequence

from ln_repro.records.archive import Run
from ln_repro.system.files import Json

WEIGHT = "decoder.w2"
"""The weight whose gradients the paper compares over layers."""
NEAR = 0.05
"""Maximum distance of a probe from the point of a run that it is to represent, as a part of the run."""


def probes(run: Run, name: str, batches: int = 1) -> Iterator[tuple[int, Json]]:
    """Yield the update and the values of each probe of one kind that averages over at least so many mini-batches.

    Probes with a value that is not finite are left out.
    """
    for probe in run.record.probes:
        if probe.name == name and probe.batches >= batches and probe.values is not None:
            yield probe.update, probe.values


def layer_gradients(run: Run, batches: int = 1, kind: str = "norm_of_mean") -> dict[int, list[float]]:
    """Return the gradient norm of W2 in each decoder layer, by update."""
    return {update: list(values[kind][WEIGHT]) for update, values in probes(run, "gradients", batches)}


def unevenness(norms: Sequence[float]) -> float:
    """Return the largest over the smallest gradient norm; 1 if all are 0, as in ReZero before training."""
    if not max(norms):
        return 1.0
    return max(norms) / min(norms) if min(norms) else math.inf


def uneven_gradients(run: Run, batches: int = 1) -> dict[int, float]:
    """Return the unevenness of the gradients of W2 over decoder layers, by update."""
    return {update: unevenness(norms) for update, norms in layer_gradients(run, batches).items()}


def unevenness_after(run: Run, part: float, batches: int) -> float:
    """Return the unevenness of the gradients of W2 after a part of a run; NaN without a probe there.

    The nearest probe counts, if it is within `NEAR`; at the start, only one before training.
    """
    found, updates = uneven_gradients(run, batches), run.record.updates
    nearest = min(found, key=lambda at: abs(at / updates - part), default=math.inf)
    return found[int(nearest)] if abs(nearest / updates - part) <= (NEAR if part else 0) else math.nan
