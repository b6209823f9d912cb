"""Stop running and queued runs; each saves its state, and the next sweep resumes it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from ln_repro.errors import LnReproError
from ln_repro.records.run_dir import RunFolder, runs_under
from ln_repro.sweep import slurm
from ln_repro.sweep.cluster import submitted
from ln_repro.sweep.queued import ALL, Cancellations
from ln_repro.system.directory_lock import Holder

CLOCK_SECONDS = 2.0
"""Tolerance for the start time of a process, which Linux computes from the wall clock."""


def cancel(runs: Path, names: Sequence[str] | None) -> Iterator[str]:
    """Stop runs, by the names of their directories (None: all runs of all sweeps).

    Yields a message for each that was running or queued, and for each failure.
    """
    Cancellations(runs).request([ALL] if names is None else names)  # for sweeps on this and other machines
    try:
        jobs = submitted(runs)
        slurm.cancel(job.name for name, job in jobs.items() if names is None or name in names)
    except LnReproError as error:
        jobs = {}
        yield f"{error}: the jobs in its queue are not cancelled"
    for name in sorted({run.path.name for run in runs_under(runs)} | {*jobs}) if names is None else names:
        holder = RunFolder(runs / name).holder
        if name in jobs:
            yield f"{name}: job {jobs[name].name} cancelled"
        elif holder and holder.is_local:
            yield f"{name}: {holder} {'stopping' if stopped(holder) else 'could not be stopped'}"
        elif holder:
            yield f"{name}: running on {holder.host}; its sweep stops it; stop a single `ln-repro run` there"
    yield "cancelled runs stay as they are until a sweep or `ln-repro run` is started again"


def stopped(holder: Holder) -> bool:
    """Send SIGTERM to a run on this machine, so that it saves its state; return whether its process was found."""
    try:
        process = psutil.Process(holder.pid)
        if holder.created is None or abs(process.create_time() - holder.created) > CLOCK_SECONDS:
            return False  # the id now belongs to another process
        process.terminate()
    except psutil.Error:
        return False
    return True
