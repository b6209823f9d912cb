"""Stop cells, wherever they wait or run. Nothing is lost: each saves its state, and the next sweep goes on."""

import contextlib
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

from ln_repro.store import RunFolder, runs_under
from ln_repro.sweep import slurm
from ln_repro.sweep.cluster import queued
from ln_repro.sweep.jobs import Jobs
from ln_repro.sweep.requests import Requests


def cancel(runs: Path, names: Sequence[str] | None) -> Iterator[str]:
    """Stop cells; yield a line for each that was at work or waited in a queue, and for what else was done.

    Args:
        runs: the runs folder.
        names: of the cells' directories; None for every one that is at work or waits.

    Raises:
        LnReproError: Slurm does not answer.
    """
    jobs, waiting = Jobs(runs).read(), queued(runs)
    if names is None:
        names = sorted({run.path.name for run in runs_under(runs) if run.holder} | set(waiting))
    Requests(runs).make(names)  # for sweeps at work, here or on other machines
    slurm.cancel(jobs[name].job for name in names if name in waiting)
    for name in names:
        holder = RunFolder(runs / name).holder
        if name in waiting:
            yield f"{name}: job {jobs[name].job} cancelled"
        elif holder and holder.here:
            with contextlib.suppress(ProcessLookupError):  # it has just ended; or its workers are about to
                os.kill(holder.pid, signal.SIGTERM)
            yield f"{name}: {holder} asked to save and end"
        elif holder:
            yield f"{name}: at work on {holder.host}; the sweep there stops it, a single run is stopped there"
    yield f"{len(names)} cell{'' if len(names) == 1 else 's'} will not be run until a sweep is started again"
