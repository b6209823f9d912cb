"""Find records that count for no named experiment."""

from collections import Counter
from collections.abc import Sequence

from ln_repro.claims.evidence import Named, foreign_start, gather, variation
from ln_repro.records.archive import Run


def strays(runs: Sequence[Run], named: Named) -> list[str]:
    """Return a line, with the reason and the number of runs, for each kind of run that counts for no experiment."""
    evidence = gather(runs, named)
    counted = {run.record["id"] for one in evidence.values() for part in one.by_start
               for arm in part.arms.values() for run in arm.values()}  # fmt: skip
    lines = Counter(f"{run.record['exp']}: {_reason(run, named)}" for run in runs if run.record["id"] not in counted)
    return [f"{line} ({number} of its records)" for line, number in lines.items()]


def tried(run: Run, named: Named) -> bool:
    """Return whether a run differs from its experiment in more than seed, rate and the variations of `evidence`."""
    arm = named(run.record["exp"])
    return arm is None or run.experiment.arm_key() != arm.key


def _reason(run: Run, named: Named) -> str:
    """Return how a run differs from the experiment that it is named after."""
    arm, experiment = named(run.record["exp"]), run.experiment
    if arm is None:
        return "no experiment of that name"
    if foreign_start(run):
        return f"start={run.record['axes']['start']}"
    if tried(run, named):
        return "settings of its own"
    rate = f"lr={experiment.lr:g}" if experiment.lr != arm.lr else ""
    return ", ".join(filter(None, [rate, variation(experiment, arm.init)])) or "a seed again"
