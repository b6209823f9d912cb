"""What may cause a run to fail: measures of its first updates, and how well they separate failing from training runs.

A measure explains failure only if it does so over schemes and learning rates, not only for Post-LN and interventions on
it. An intervention that removes a cause should make Post-LN train without warm-up, see ``conf/grid/mechanisms.yaml``.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ln_repro.claims.evidence import Evidence
from ln_repro.claims.intervals import SAMPLES, UNBOUNDED, Interval
from ln_repro.claims.metrics import Count, Effect
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


ARMS = (
    "postln_nowarm", "postln_warm", "preln_nowarm_anchored", "deepnorm_nowarm", "admin_nowarm", "rezero_nowarm",
    "b2t_nowarm", "hybridnorm_nowarm", "residual_nowarm", "ngpt_nowarm",
)  # fmt: skip
"""The arms over whose rates a cause must separate failing from training runs."""
LATEST = 32
"""The update of the last probe that counts: without warm-up, Post-LN fails within a few dozen updates."""
INTERVENED = "postln_nowarm"
"""The arm that interventions change."""


@dataclass(frozen=True)
class Cause:
    """A possible cause of failure."""

    name: str
    quantity: str  # what is measured, in words
    of: Callable[[Run], float]  # larger where a run should fail; NaN without the probe
    option: str = ""  # the setting of the intervention that removes it, if there is one


def _maximum(name: str, of: Callable[[Mapping[str, object]], float]) -> Callable[[Run], float]:
    """Return a function of a run: the maximum over the probes of the first updates."""

    def largest(run: Run) -> float:
        values = {update: of(values) for update, values in probes(run, name) if 0 < update <= LATEST}
        return max(values.values()) if LATEST in values else math.nan

    return largest


def first_layer_gradient(run: Run) -> float:
    """Return the gradient of the first layer's W2 at update `LATEST` over that at the start, of the worse stack."""
    norms = {update: values["gradient"] for update, values in probes(run, "collapse") if update in (0, LATEST)}
    if len(norms) < 2:
        return math.nan
    first = {update: [values[f"{stack}.w2"][0] for stack in ("encoder", "decoder")] for update, values in norms.items()}
    if not all(first[0]):
        return math.nan  # as in ReZero, whose branches are 0 before training
    return min(float(after / before) for before, after in zip(first[0], first[LATEST], strict=True))


def encoder_cosine(run: Run) -> float:
    """Return the mean pairwise cosine of the encoder's output at update `LATEST`."""
    return next((float(values["cosine"]["encoder"][-1]) for update, values in probes(run, "collapse")
                 if update == LATEST), math.nan)  # fmt: skip


VANISHING = Cause(
    "collapse: gradient", f"W2's gradient in the first layer, update {LATEST} over update 0, smaller of the two stacks",
    lambda run: -first_layer_gradient(run),
)  # fmt: skip
CAUSES = (
    VANISHING,
    Cause("collapse: tokens alike", f"mean pairwise cosine of the encoder's output at update {LATEST}", encoder_cosine),
    Cause(
        "uneven gradients", "largest over smallest gradient of W2 in a decoder layer",
        _maximum("gradients", lambda values: unevenness(values["norm_of_mean"][WEIGHT])),  # type: ignore[index]
        "optimizer.equal_layer_norms=true",
    ),
    Cause(
        "beyond the edge of stability", "learning rate x sharpness / threshold of stability",
        _maximum("curvature", lambda values: values["rate_times_sharpness"] / values["threshold"]),  # type: ignore
        "optimizer.second_moment=gradient",
    ),
    Cause(
        "large steps of the weights", "relative change of a matrix by an update",
        _maximum("updates", lambda values: values["weights"]), "optimizer.max_relative_update=0.0066",  # type: ignore
    ),
    Cause(
        "branches that amplify changes", "relative change of the decoder's output by an update",
        _maximum("updates", lambda values: values["outputs"]["decoder"]), "model.branch_gain=0.343",  # type: ignore
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Separation:
    """How well a cause separates the runs that fail from those that train, and what its removal does."""

    cause: Cause
    area: float  # under the ROC curve; 0.5 is chance, NaN without runs of both kinds
    interval: Interval  # 95 %, by resampling seeds
    failing: int
    training: int
    arms: int
    rescued: Count  # runs with the intervention that train

    @property
    def effect(self) -> Effect:
        """The area as an effect."""
        return Effect(self.area, self.interval, "{}", ".2f")


def separations(evidence: Evidence) -> list[Separation]:
    """Return the causes that were measured in failing and in training runs, or whose intervention was run."""
    every = [separation(evidence, cause) for cause in CAUSES]
    return [found for found in every if not math.isnan(found.area) or found.rescued.runs]


def separation(evidence: Evidence, cause: Cause) -> Separation:
    """Return how well a cause separates failing from training runs over `ARMS` and rates; partial runs are left out."""
    measured = [(arm, run, value) for arm in ARMS for runs in evidence.curve(arm).values() for run in runs
                if not math.isnan(value := cause.of(run))]  # fmt: skip
    failing, training = ([(run.seed, value) for _, run, value in measured if condition(run)]
                         for condition in (evidence.failed, evidence.trained))  # fmt: skip
    area, bounds = math.nan, UNBOUNDED
    if failing and training:
        area, bounds = area_under_curve(failing, training), resampled(failing, training)
    changed = evidence.others.get(cause.option, Evidence()).rates.get(INTERVENED, {}) if cause.option else {}
    rescued = Count.of(evidence.trained, [run for runs in changed.values() for run in runs.values()])
    arms = len({arm for arm, *_ in measured})
    return Separation(cause, area, bounds, len(failing), len(training), arms, rescued)


Values = Sequence[tuple[int, float]]
"""A measure with the seed of its run."""


def area_under_curve(failing: Values, training: Values) -> float:
    """Return the probability that a failing run has the larger value; ties count half (Mann and Whitney)."""
    pairs = _wins(failing, training)
    return float(pairs.mean())


def _wins(failing: Values, training: Values) -> NDArray[np.float64]:
    high, low = (np.array([value for _, value in group]) for group in (failing, training))
    return (high[:, None] > low) + 0.5 * (high[:, None] == low)


def resampled(failing: Values, training: Values) -> Interval:
    """Return the 95 % bootstrap interval of the area; a seed is drawn with all of its runs."""
    wins = _wins(failing, training)
    seeds = sorted({seed for seed, _ in (*failing, *training)})
    of_runs = [[seeds.index(seed) for seed, _ in group] for group in (failing, training)]
    draw = np.random.default_rng(0).multinomial(len(seeds), [1 / len(seeds)] * len(seeds), SAMPLES)
    areas = []
    for times in draw:
        weights = [times[of] for of in of_runs]
        total = weights[0].sum() * weights[1].sum()
        if total:
            areas.append(weights[0] @ wins @ weights[1] / total)
    low, high = np.quantile(areas, [0.025, 0.975])
    return float(low), float(high)
