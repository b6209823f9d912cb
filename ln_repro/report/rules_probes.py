"""TH-10: gradients after the ramp, from the probes of runs."""

from collections.abc import Sequence

from ln_repro.report.case import RATIO, Case, Judged, not_run
from ln_repro.report.evidence import Evidence, Run

WEIGHT = "decoder.w2"


def tiny_after_the_ramp(evidence: Evidence, arms: Sequence[str]) -> Judged:
    """TH-10: every layer is small, and small beside the last layer's at initialisation."""
    if not (probed := with_probes(evidence, arms[0])):
        return not_run([f"{arms[0]} with probe=gradients"])
    case = Case(probed, arms)
    case.within("largest after the ramp", probed.of(arms[0], lambda run: max(after_ramp(run))), most=0.1)
    ratios = probed.of(arms[0], lambda run: max(after_ramp(run)) / at_start(run)[-1])
    case.within("over the last layer's at initialisation", ratios, most=1 / 20, scale=RATIO)
    return case.judged()


def smaller_after_the_ramp(evidence: Evidence, arms: Sequence[str]) -> Judged:
    """TH-10 for the last layer alone."""
    if not (probed := with_probes(evidence, arms[0])):
        return not_run([f"{arms[0]} with probe=gradients"])
    case = Case(probed, arms)
    case.tell("last layer at initialisation", probed.of(arms[0], lambda run: at_start(run)[-1]))
    ratios = probed.of(arms[0], lambda run: after_ramp(run)[-1] / at_start(run)[-1])
    case.within("after the ramp over that", ratios, most=1 / 5, scale=RATIO)
    return case.judged()


def with_probes(evidence: Evidence, arm: str) -> Evidence | None:
    """Return the runs of an arm that were probed before training and after the ramp; None if there are none."""
    runs = {seed: run for seed, run in evidence.arms[arm].items() if probes(run, 0) and probes(run, ramp(run))}
    return Evidence(evidence.corpus, {arm: runs}) if runs else None


def ramp(run: Run) -> int:
    """Return the updates of the run's warm-up."""
    return int(run.record["axes"]["warmup_updates"])


def probes(run: Run, update: int) -> list[list[float]]:
    """Return the norms by layer, of the probes at ``update`` or later."""
    return [
        event["values"]["norm_of_mean"][WEIGHT]
        for event in run.events
        if event["kind"] == "probe" and event["update"] >= update
    ]


def at_start(run: Run) -> list[float]:
    """Return the norms by layer before training."""
    return probes(run, 0)[0]


def after_ramp(run: Run) -> list[float]:
    """Return the norms by layer at the first probe once the ramp has ended."""
    return probes(run, ramp(run))[0]
