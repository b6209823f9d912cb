"""Records that are no evidence for any named experiment, and why."""

from collections import Counter
from collections.abc import Sequence

from ln_repro.claims.evidence import Named, foreign_start, gather, variation
from ln_repro.records.archive import Run


def strays(runs: Sequence[Run], named: Named) -> list[str]:
    """Return a line for every kind of run that is evidence for no named experiment: other settings, or a seed again."""
    evidence = gather(runs, named)
    counted = {run.record["id"] for one in evidence.values() for part in one.by_start
               for arm in part.arms.values() for run in arm.values()}  # fmt: skip
    told = Counter(f"{run.record['exp']}: {_apart(run, named)}" for run in runs if run.record["id"] not in counted)
    return [f"{line} ({number} of its records)" for line, number in told.items()]


def _apart(run: Run, named: Named) -> str:
    """Return how a run differs from the experiment that it is named after."""
    arm, experiment = named(run.record["exp"]), run.experiment
    if arm is None:
        return "no experiment of that name"
    if foreign_start(run):
        return f"start={run.record['axes']['start']}"
    if experiment.arm_key() != arm.key:
        return "settings of its own"
    told = [f"lr={experiment.lr:g}"] if experiment.lr != arm.lr else []
    return ", ".join([*told, *filter(None, [variation(experiment, arm.init)])]) or "a seed again"
