"""Possible causes of Post-LN's need for warm-up: what accompanies failure, and what makes it train without warm-up.

A cause should be present in runs that fail, absent in runs that train at the same rate, and its removal should make
the failing arm train. The first two are observed by probes, the third by an intervention, see ``conf/grid/mechanisms``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ln_repro.claims.criteria import Count
from ln_repro.claims.evidence import Evidence
from ln_repro.claims.probes import probes, uneven_gradients
from ln_repro.records.archive import Run

FAILING, TRAINING = "postln_nowarm", ("postln_warm", "preln_nowarm_anchored")
"""The arm that is to be explained, and those that it is compared with, at the same peak rate."""
START = 400
"""Probes up to this update are taken into account: Post-LN without warm-up fails within a few dozen updates."""

Curve = Mapping[int, float]
"""A quantity by update."""
CAUSE, NO_CAUSE, OPEN = "supported", "not supported", "open"


@dataclass(frozen=True)
class Mechanism:
    """A possible cause."""

    name: str
    quantity: str  # what is measured, in words; its maximum over the first updates counts
    of: Callable[[Run], Curve]  # returns the quantity by update for a run with probes
    threshold: float | None  # above which theory predicts failure; None: the largest value in any run that trains
    option: str  # the setting of the intervention

    def largest(self, *groups: Sequence[Run]) -> list[list[float]]:
        """Return the maxima over the first updates of the runs of each group that were probed as the first group was.

        With fewer probes, a maximum would be lower.
        """
        curves = [[curve for run in runs if (curve := self._first(run))] for runs in groups]
        return [[max(curve.values()) for curve in probed_alike(of_group, curves[0])] for of_group in curves]

    def _first(self, run: Run) -> dict[int, float]:
        return {update: value for update, value in self.of(run).items() if update <= START}


def probed_alike(curves: Sequence[Curve], others: Sequence[Curve]) -> list[Curve]:
    """Return the curves that have a point at every update at which all ``others`` have one."""
    shared = set.intersection(*map(set, others)) if others else set()
    return [curve for curve in curves if curve.keys() >= shared]


def instability(run: Run) -> dict[int, float]:
    """Return the learning rate times the preconditioned sharpness, relative to the threshold of stability."""
    return {update: values["rate_times_sharpness"] / values["threshold"] for update, values in probes(run, "curvature")}


def weight_changes(run: Run) -> dict[int, float]:
    """Return the largest ||dW|| / ||W|| of any matrix of a layer by one update."""
    return {update: values["weights"] for update, values in probes(run, "updates")}


def output_changes(run: Run) -> dict[int, float]:
    """Return ||dy|| / ||y|| of the decoder's output, after its final norm if there is one, by one update."""
    return {update: values["outputs"]["decoder"] for update, values in probes(run, "updates")}


MECHANISMS = (
    Mechanism(
        "uneven gradients", "largest over smallest gradient of a layer", uneven_gradients, None,
        "optimizer.equal_layer_norms=true",
    ),
    Mechanism(
        "steps beyond the edge of stability", "learning rate x sharpness / threshold of stability", instability, 1.0,
        "optimizer.second_moment=gradient",
    ),
    Mechanism(
        "large steps of the weights", "relative change of a matrix by an update", weight_changes, None,
        "optimizer.max_relative_update=0.0066",
    ),
    Mechanism(
        "branches that amplify changes", "relative change of the decoder's output by an update", output_changes, None,
        "model.branch_gain=0.343",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Assessment:
    """A mechanism and what the runs of a setting show about it."""

    mechanism: Mechanism
    limit: float | None  # the value above which it is present; None if no probed run trains
    failing: Count  # those of the probed runs that fail in which it is present
    training: Count  # those of the probed runs that train at the same rate in which it is present
    removed: Count  # those of the probed runs with the intervention in which it is absent
    rescued: Count  # those of the runs with the intervention that train
    bleu: Sequence[float]  # of the runs with the intervention

    @property
    def verdict(self) -> str:
        """Whether it is a cause, as far as these runs show.

        It is not if it is absent where runs fail or present where they train, or if its removal does not help. An
        intervention that does not remove it and does not help says nothing.
        """
        if self.limit is None:
            return OPEN
        if self.failing.few or self.training.most or (self.removed.most and self.rescued.few):
            return NO_CAUSE
        return CAUSE if self.failing.most and self.training.few and self.rescued.most else OPEN


def assess(evidence: Evidence) -> list[Assessment]:
    """Return every mechanism with the runs of a setting, at the peak rate of the arm that fails."""
    failing = [run for run in evidence.arms.get(FAILING, {}).values() if evidence.failed(run)]
    rates = {run.experiment.lr for run in failing}
    training = [run for arm in TRAINING for rate in rates for run in evidence.curve(arm).get(rate, ())
                if evidence.trained(run)]  # fmt: skip
    return [_assess(mechanism, evidence, failing, training) for mechanism in MECHANISMS]


def _assess(mechanism: Mechanism, evidence: Evidence, failing: Sequence[Run], training: Sequence[Run]) -> Assessment:
    changed = evidence.others.get(mechanism.option, Evidence()).arms.get(FAILING, {}).values()
    at_failure, at_success, after = mechanism.largest(failing, training, [*changed])
    limit = mechanism.threshold if mechanism.threshold is not None else max(at_success, default=None)

    def above(values: Sequence[float]) -> Count:
        return Count(sum(limit is not None and value > limit for value in values), len(values))

    kept = above(after)
    return Assessment(
        mechanism, limit, above(at_failure), above(at_success), Count(kept.runs - kept.hits, kept.runs),
        Count.of(evidence.trained, changed), [run.bleu for run in changed],
    )  # fmt: skip
