"""What may cause a run to fail: measures of its first updates, and how well they separate failing from training runs.

A measure explains failure only if it does so over schemes and learning rates, not only for Post-LN and interventions on
it. An intervention that removes a cause should make Post-LN train without warm-up, see ``conf/grid/mechanisms.yaml``.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ln_repro.claims.evidence import Evidence
from ln_repro.claims.intervals import SAMPLES, UNBOUNDED
from ln_repro.claims.metrics import Count, Effect
from ln_repro.records.archive import Run
from ln_repro.system.files import Json

ARMS = (
    "postln_nowarm", "postln_warm", "preln_nowarm_anchored", "deepnorm_nowarm", "admin_nowarm", "rezero_nowarm",
    "b2t_nowarm", "hybridnorm_nowarm", "residual_nowarm", "ngpt_nowarm",
)  # fmt: skip
"""The arms over whose rates a cause must separate failing from training runs."""
LATEST = 32  # the update of the last probe that counts: without warm-up, Post-LN fails within a few dozen updates
WEIGHT = "decoder.w2"  # the weight whose gradients the paper compares over layers
STACKS = ("encoder", "decoder")
PROBE_BATCHES = 100
"""Minimum number of mini-batches per probe of gradients; the noise of the mean falls with the square root."""
NEAR = 0.05  # maximum distance of a probe from the point of a run that it is to represent, as a part of the run
Values = Sequence[tuple[int, float]]  # a measure with the seed of its run


def probes(run: Run, name: str, batches: int = 1) -> dict[int, Json]:
    """Return the values of the probes of one kind that average over at least so many mini-batches, by update.

    Probes with a value that is not finite are left out.
    """
    return {
        probe.update: probe.values
        for probe in run.record.probes
        if probe.name == name and probe.batches >= batches and probe.values is not None
    }


def layer_gradients(run: Run, kind: str = "norm_of_mean") -> dict[int, list[float]]:
    """Return the gradient norm of W2 in each decoder layer, by update, from probes of `PROBE_BATCHES` or more."""
    return {update: list(values[kind][WEIGHT]) for update, values in probes(run, "gradients", PROBE_BATCHES).items()}


def unevenness(norms: Sequence[float]) -> float:
    """Return the largest over the smallest gradient norm; 1 if all are 0, as in ReZero before training."""
    if not max(norms):
        return 1.0
    return max(norms) / min(norms) if min(norms) else math.inf


def unevenness_after(run: Run, part: float) -> float:
    """Return the unevenness of the gradients of W2 after a part of a run; NaN without a probe there.

    The nearest probe counts, if it is within `NEAR`; at the start, only one before training.
    """
    gradients = layer_gradients(run)
    updates = run.record.updates or 1  # 0 if the first update was not finite
    distances = ((abs(update / updates - part), update) for update in gradients)
    distance, nearest = min(distances, default=(math.inf, 0))
    return unevenness(gradients[nearest]) if distance <= (NEAR if part else 0) else math.nan


def _maximum(name: str, of: Callable[[Json], float], run: Run) -> float:
    """Return the maximum of a quantity over the probes of the first updates; NaN without one at update `LATEST`."""
    values = {update: of(values) for update, values in probes(run, name).items() if 0 < update <= LATEST}
    return max(values.values()) if LATEST in values else math.nan


def relative_gradients(run: Run) -> dict[str, dict[int, float]]:
    """Return the gradient norm of W2 in the first layer of each stack over that at the start, by update.

    There are none for a stack where it is 0 at the start, as in ReZero, whose branches are 0 before training.
    """
    probed = probes(run, "collapse")
    norms = {
        stack: {update: values["gradient"][f"{stack}.w2"] for update, values in probed.items()} for stack in STACKS
    }
    return {
        stack: {update: norm / curve[0] for update, norm in curve.items() if curve.get(0)}
        for stack, curve in norms.items()
    }


def cosines(run: Run) -> dict[str, dict[int, float]]:
    """Return the mean pairwise cosine of the tokens in each stack's output, by update."""
    probed = probes(run, "collapse")
    return {stack: {update: values["cosine"][stack][-1] for update, values in probed.items()} for stack in STACKS}


def first_layer_gradient(run: Run) -> float:
    """Return the smaller of the two stacks' `relative_gradients` at update `LATEST`; infinite if there are none."""
    if not {0, LATEST} <= probes(run, "collapse").keys():
        return math.nan
    return min(curve.get(LATEST, math.inf) for curve in relative_gradients(run).values())


@dataclass(frozen=True)
class Cause:
    """A possible cause of failure."""

    name: str
    quantity: str  # what is measured, in words
    of: Callable[[Run], float]  # larger where a run should fail; NaN without the probe
    option: str = ""  # the intervention that removes it, if there is one, as in `Evidence.variations`


VANISHING = Cause(
    "collapse: gradient",
    f"W2's gradient in the first layer, update {LATEST} over update 0, smaller of the two stacks",
    lambda run: -first_layer_gradient(run),
)
CAUSES = (
    VANISHING,
    Cause(
        "collapse: tokens alike",
        f"mean pairwise cosine of the encoder's output at update {LATEST}",
        lambda run: cosines(run)["encoder"].get(LATEST, math.nan),
    ),
    Cause(
        "uneven gradients", "largest over smallest gradient of W2 in a decoder layer",
        partial(_maximum, "gradients", lambda values: unevenness(values["norm_of_mean"][WEIGHT])),
        "optimizer.equal_layer_norms=true",
    ),
    Cause(
        "beyond the edge of stability", "learning rate x sharpness / threshold of stability",
        partial(_maximum, "curvature", lambda values: values["rate_times_sharpness"] / values["threshold"]),
        "optimizer.second_moment=gradient",
    ),
    Cause(
        "large steps of the weights", "relative change of a matrix by an update",
        partial(_maximum, "updates", lambda values: values["weights"]), "optimizer.max_relative_update=0.0066",
    ),
    Cause(
        "branches that amplify changes", "relative change of the decoder's output by an update",
        partial(_maximum, "updates", lambda values: values["outputs"]["decoder"]), "model.branch_gain=0.343",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Separation:
    """How well a cause separates the runs that fail from those that train, and what its removal does."""

    cause: Cause
    effect: Effect  # the area under the ROC curve; 0.5 is chance, NaN without runs of both kinds
    failing: int
    training: int
    arms: int
    rescued: Count  # runs with the intervention that train


def separations(evidence: Evidence) -> list[Separation]:
    """Return the causes that were measured in failing and in training runs, or whose intervention was run."""
    results = [separation(evidence, cause) for cause in CAUSES]
    return [result for result in results if not math.isnan(result.effect.value) or result.rescued.runs]


def separation(evidence: Evidence, cause: Cause) -> Separation:
    """Return how well a cause separates failing from training runs over `ARMS` and rates; partial runs are left out."""
    measured = [
        (arm, run, value) for arm in ARMS for run in evidence.of_arms([arm]) if not math.isnan(value := cause.of(run))
    ]
    failing, training = (
        [(run.seed, value) for _, run, value in measured if condition(run)]
        for condition in (evidence.failed, evidence.trained)
    )
    area = area_under_curve(failing, training) if failing and training else Effect(math.nan)
    changed = evidence.variations.get(cause.option, Evidence()).of_arms(["postln_nowarm"])
    arms = len({arm for arm, *_ in measured})
    return Separation(cause, area, len(failing), len(training), arms, Count.of(evidence.trained, changed))


def area_under_curve(failing: Values, training: Values) -> Effect:
    """Return the probability that a failing run has the larger value; ties count half (Mann and Whitney).

    Its 95 % interval is a bootstrap's, in which a seed is drawn with all of its runs.
    """
    high, low = (np.array([value for _, value in group]) for group in (failing, training))
    wins = (high[:, None] > low) + 0.5 * (high[:, None] == low)
    seeds = sorted({seed for seed, _ in (*failing, *training)})
    of_runs = [[seeds.index(seed) for seed, _ in group] for group in (failing, training)]
    areas = []
    for times in np.random.default_rng(0).multinomial(len(seeds), [1 / len(seeds)] * len(seeds), SAMPLES):
        first, second = (times[of_group] for of_group in of_runs)
        if total := first.sum() * second.sum():
            areas.append(first @ wins @ second / total)
    ends = np.quantile(areas, [0.025, 0.975])
    interval = (float(ends[0]), float(ends[1])) if len(seeds) > 1 else UNBOUNDED
    return Effect(float(wins.mean()), interval, "{}", ".2f")
