"""Stop cells, wherever they wait or run. Nothing is lost: each saves its state, and the next sweep goes on."""

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from ln_repro.errors import LnReproError
from ln_repro.records.run_dir import RunFolder, runs_under
from ln_repro.sweep import slurm
from ln_repro.sweep.cluster import at_work
from ln_repro.sweep.requests import ALL, Requests
from ln_repro.system.directory_lock import Holder


def cancel(runs: Path, names: Sequence[str] | None) -> Iterator[str]:
    """Stop cells; yield a line for each that was at work or waited in a queue, and for what could not be done.

    Args:
        runs: the runs folder.
        names: of the cells' directories; None for all that run or wait, of whatever sweep.
    """
    Requests(runs).make([ALL] if names is None else names)  # for sweeps at work, here or on other machines
    try:
        jobs = at_work(runs)
        slurm.cancel(handed.job.name for name, handed in jobs.items() if names is None or name in names)
    except LnReproError as error:
        jobs = {}
        yield f"{error}: whatever waits there is not cancelled"
    for name in sorted({run.path.name for run in runs_under(runs)} | {*jobs}) if names is None else names:
        holder = RunFolder(runs / name).holder
        if name in jobs:
            yield f"{name}: job {jobs[name].job.name} cancelled"
        elif holder and holder.here:
            yield f"{name}: {holder} {'asked to save and end' if asked(holder) else 'could not be asked to end'}"
        elif holder:
            yield f"{name}: at work on {holder.host}; a sweep there stops it, a single run is stopped there"
    yield "what was stopped, or waited, will not be run until a sweep is started again"


def asked(holder: Holder) -> bool:
    """Ask a run on this machine to save and end; return whether it could be asked."""
    try:
        if not any("ln" in word and "repro" in word for word in psutil.Process(holder.pid).cmdline()):
            return False  # the number is another's by now
        os.kill(holder.pid, signal.SIGTERM)
    except (OSError, psutil.Error):
        return False
    return True
