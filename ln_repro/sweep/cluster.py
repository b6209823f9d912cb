"""A sweep on a cluster: submit the unfinished runs that are not in the queue yet, and wait until all have ended."""

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ln_repro.errors import Interrupted, LnReproError
from ln_repro.experiment.settings import Experiment
from ln_repro.sweep import queued as files
from ln_repro.sweep import slurm
from ln_repro.sweep.plan import PlannedRun
from ln_repro.sweep.progress import Progress
from ln_repro.system.directory_lock import acquire

WATCH_SECONDS = 5.0
ACTIVE = ("queued", "running")


@dataclass(frozen=True)
class Submitted:
    """A run in Slurm's queue: the job, and the file of its experiment."""

    job: slurm.Job
    file: Path


def arrays(runs: Path) -> Path:
    """Return the folder of submitted runs; it has one folder for each job array, named like the array in Slurm."""
    return runs.absolute() / "sweep" / "slurm" / "queue"


def submitted(runs: Path) -> dict[str, Submitted]:
    """Return the runs in Slurm's queue, waiting or running, by the names of their directories.

    Raises:
        LnReproError: Slurm does not answer (it is asked only if runs were ever submitted).
    """
    ours = {folder.name: folder for folder in arrays(runs).glob("*")}
    jobs = [job for job in slurm.queue() if job.tag in ours] if ours else []
    runs_of = {tag: files.listed(ours[tag]) for tag in {job.tag for job in jobs}}
    found = [Submitted(job, runs_of[job.tag][job.index]) for job in jobs if job.index in runs_of[job.tag]]
    return {files.name(one.file): one for one in found}


def submitted_experiment(runs: Path, name: str) -> Experiment | None:
    """Return the experiment of a submitted run, given its directory's name; None if it was not submitted."""
    file = next(arrays(runs).glob(f"*/*-{name}.json"), None)
    return files.read(file)[0] if file else None


def queued(runs: Path) -> dict[str, str]:
    """Return the states (``queued`` or ``running``) of the runs in Slurm's queue, by the names of their directories.

    Raises:
        LnReproError: Slurm does not answer.
    """
    return {name: one.job.state for name, one in submitted(runs).items()}


def submit_unfinished(plan: Sequence[PlannedRun], runs: Path, options: Mapping[str, Any], retries: int) -> int:
    """Submit the runs that are not done, running or in the queue; return how many.

    Raises:
        UserError: Slurm or submitit refuses the options.
        LnReproError: Slurm does not answer, or another sweep is submitting.
    """
    with acquire(runs / "sweep"):
        there = queued(runs)
        todo = [p for p in plan if not p.done and p.name not in there and not p.folder.holder]
        if todo:
            tag = f"ln-repro-{uuid.uuid4().hex}"
            # written before anything is submitted: if this process dies meanwhile, the queue still names the runs
            written = files.write(todo, arrays(runs) / tag)
            jobs = [
                slurm.RunJob(p.name, str(file), str(runs.absolute()), retries)
                for p, file in zip(todo, written, strict=True)
            ]
            slurm.submit(jobs, tag, options, runs.absolute() / "sweep" / "slurm")
    return len(todo)


def _dequeue(plan: Sequence[PlannedRun], runs: Path) -> int:
    """Cancel the jobs of these runs that still wait in the queue; return how many."""
    names = {planned.name for planned in plan}
    waiting = [one.job for name, one in submitted(runs).items() if name in names and one.job.state == "queued"]
    slurm.cancel(job.name for job in waiting)
    return len(waiting)


def watch(plan: Sequence[PlannedRun], progress: Progress, runs: Path, fail_fast: bool = False) -> None:
    """Return once no run is running or in the queue.

    Args:
        plan: the runs.
        progress: the display.
        runs: the runs folder.
        fail_fast: once a run has ended without a record, cancel those that still wait in the queue.

    Raises:
        Interrupted: after Ctrl-C; the jobs continue.
    """
    ended: set[str] = set()
    try:
        while True:
            try:
                states = progress.states()
                progress.show()
            except LnReproError as error:  # Slurm may answer the next time
                progress.say(f"{error}; trying again")
                states = {planned.name: "running" for planned in plan if not planned.done}
            for planned in plan:
                if planned.name not in ended and planned.done:
                    ended.add(planned.name)
                    progress.ended(planned)
            if fail_fast and any(not p.done and states[p.name] not in ACTIVE for p in plan):
                fail_fast = False
                progress.say(f"--fail-fast: {_dequeue(plan, runs)} runs are not started")
            if not any(state in ACTIVE for state in states.values()):
                break
            time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        raise Interrupted(
            "the jobs stay in the queue; `ln-repro status` shows them, `ln-repro cancel` stops them"
        ) from None
    for planned in plan:
        if not planned.done:
            progress.ended(planned, 1)
