"""Sweeps on a cluster: submit the unfinished runs that are not in the queue, and wait until all have ended.

`cancel` stops the runs of all sweeps, on a cluster or not.
"""

import shutil
import time
import uuid
from collections.abc import Collection, Sequence
from pathlib import Path

import psutil

from ln_repro.errors import Interrupted, LnReproError, UserError
from ln_repro.records.run_dir import RunFolder, runs_under
from ln_repro.sweep import queued, slurm
from ln_repro.sweep.plan import PlannedRun, stacks
from ln_repro.sweep.progress import Progress
from ln_repro.sweep.queued import ALL, Cancellations
from ln_repro.system.directory_lock import Holder, acquire
from ln_repro.system.files import Json, warn
from ln_repro.system.progress import Report

WATCH_SECONDS = 5.0
ACTIVE = ("queued", "running")
CLOCK_SECONDS = 2.0  # tolerance for the start time of a process, which Linux computes from the wall clock


def arrays(runs: Path) -> Path:
    """Return the folder of submitted runs, which has a folder for each job array, named after its tag in Slurm."""
    return runs.absolute() / "sweep" / "slurm" / "queue"


def submitted(runs: Path) -> dict[str, slurm.Job]:
    """Return the jobs of the pending and running runs in Slurm's queue, by the names of the runs' directories.

    Slurm is only queried if there are submitted runs that have not ended; raise `LnReproError` if it does not respond.
    """
    files = submitted_files(runs)
    jobs = {(job.tag, job.index): job for job in slurm.queue()} if files else {}
    keys = {name: (file.parent.name, queued.stack_of(file)) for name, file in files.items()}
    return {name: jobs[key] for name, key in keys.items() if key in jobs}


def submitted_files(runs: Path) -> dict[str, Path]:
    """Return the files of all submitted runs, the last one of each, by the names of their directories."""
    files = sorted(arrays(runs).glob("*/*-*.json"), key=_written)
    return {file.stem.partition("-")[2]: file for file in files}


def _written(file: Path) -> float:
    """Return when a file was written; 0 if there is none, such as that of a run that has just ended."""
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def ended_early(runs: Path, names: Collection[str]) -> dict[str, Path]:
    """Return Slurm's logs of the jobs that ended before they started their run, by the names of the directories.

    ``names`` are those of unfinished runs that are not in the queue.
    """
    logs = {}
    for name, file in submitted_files(runs).items():
        began = _written(runs / "sweep" / f"{name}.log") >= _written(file)
        if name in names and not began and (log := slurm.log_of(file, arrays(runs).parent)) and log.exists():
            logs[name] = log
    return logs


def states_in_queue(runs: Path) -> dict[str, str]:
    """Return the states (``queued`` or ``running``) of the runs in Slurm's queue, by the names of their directories."""
    return {name: job.state for name, job in submitted(runs).items()}


def submit_unfinished(
    plan: Sequence[PlannedRun], runs: Path, options: Json, retries: int, cancellations: Cancellations, size: int = 1
) -> int:
    """Submit the runs that are not done, running, in the queue or to be left out; return their number.

    A job takes up to ``size`` of them.

    Raises:
        UserError: Slurm or submitit rejects the options.
        LnReproError: Slurm does not respond, or another sweep is submitting.
    """
    with acquire(runs / "sweep"):
        in_queue = states_in_queue(runs)
        todo = [p for p in plan if not (p.done or p.name in in_queue or p.folder.holder)]
        together = stacks([p for p in todo if not cancellations.pending(p.name)], size)
        if together and not submitted_files(runs):  # otherwise, Slurm has responded above
            slurm.queue()  # raises before anything is written as submitted
        for first in range(0, len(together), slurm.ARRAY_SIZE):
            part, tag = together[first : first + slurm.ARRAY_SIZE], f"ln-repro-{uuid.uuid4().hex}"
            # Written before the submission, so that jobs can be matched to runs even if this process dies meanwhile.
            written = queued.write(part, arrays(runs) / tag)
            jobs = [slurm.StackJob(stack, runs.absolute(), retries, cancellations) for stack in written]
            try:
                slurm.submit(jobs, tag, options, runs.absolute() / "sweep" / "slurm")
            except UserError:  # refused, so that no job is in the queue
                shutil.rmtree(arrays(runs) / tag)
                raise
    return sum(map(len, together))


def watch(
    plan: Sequence[PlannedRun], progress: Progress, runs: Path, cancellations: Cancellations, fail_fast: bool = False
) -> None:
    """Wait until no run is running or in the queue; an interruption does not stop the jobs.

    With ``fail_fast``, pending runs are cancelled once a run has ended without a record, unless it was stopped by
    `cancel`.
    """
    ended, outage = {planned.name for planned in plan if planned.done}, ""
    try:
        while True:
            try:
                states = progress.states()
                progress.show(states)
                outage = ""
                if fail_fast and any(
                    not p.done and states[p.name] not in ACTIVE and not cancellations.pending(p.name) for p in plan
                ):
                    number, fail_fast = _cancel_queued(runs, states), False
                    progress.say(f"--fail-fast: queued runs not started: {number}")
            except LnReproError as error:  # possibly temporary
                if str(error) != outage:  # said once, not every few seconds
                    progress.say(f"{error}; trying again")
                outage = str(error)
                states = {planned.name: "running" for planned in plan if not planned.done}
            for planned in plan:
                if planned.name not in ended and planned.done:
                    ended.add(planned.name)
                    progress.ended(planned)
            if not any(state in ACTIVE for state in states.values()):
                break
            time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        raise Interrupted(
            "the jobs stay in the queue; `ln-repro status` shows them, `ln-repro cancel --all` stops them"
        ) from None
    unfinished = {planned.name: planned for planned in plan if not planned.done}
    logs = ended_early(runs, unfinished)
    for name, planned in unfinished.items():
        stopped = cancellations.pending(name) and not planned.folder.failure
        status = Interrupted.exit_code if stopped else 1
        progress.ended(planned, status, logs.get(name), "its job ended before it began")


def _cancel_queued(runs: Path, names: Collection[str]) -> int:
    """Cancel the waiting jobs that have some of these runs and no others; return the number of their runs."""
    jobs = submitted(runs)
    shared = {job.name for name, job in jobs.items() if name not in names}
    waiting = [job for job in jobs.values() if job.state == "queued" and job.name not in shared]
    slurm.cancel({job.name for job in waiting})
    return len(waiting)


def cancel(runs: Path, names: Sequence[str] | None, say: Report) -> None:
    """Stop runs, by the names of their directories (None: all runs of all sweeps).

    ``say`` takes a message for each that was running or queued. Raises `LnReproError` in the end if Slurm does not
    respond.
    """
    failure: LnReproError | None = None
    Cancellations(runs).request([ALL] if names is None else names)  # for sweeps on any machine
    try:
        jobs = submitted(runs)
        going_on = {job.name for name, job in jobs.items() if names is not None and name not in names}
        slurm.cancel({job.name for job in jobs.values()} - going_on)  # a job itself stops a part of its runs
        for name, file in submitted_files(runs).items():
            if name in jobs and jobs[name].state == "queued" and (names is None or name in names):
                file.unlink(missing_ok=True)  # no longer queued: a new sweep submits it again
    except LnReproError as error:
        jobs, failure = {}, error
    active = 0
    for name in sorted({run.path.name for run in runs_under(runs)} | {*jobs}) if names is None else names:
        holder = RunFolder(runs / name).holder
        active += name in jobs or holder is not None
        if name in jobs:
            what = "stops it and goes on" if jobs[name].name in going_on else "cancelled"
            say(f"{name}: job {jobs[name].name} {what}")
        elif holder and holder.is_local:
            say(f"{name}: {holder} {'stopping' if terminate(holder) else 'could not be stopped'}")
        elif holder:
            say(f"{name}: running on {holder.host}; its sweep will stop it; if it has none, stop it there")
    if failure:
        raise LnReproError(f"{failure}; jobs in its queue are not cancelled: give the same command again")
    if active:
        say("cancelled runs keep their saved state; the same command resumes them")
    else:
        say("none of these runs is running or in Slurm's queue; running sweeps skip those that they have not started")


def terminate(holder: Holder) -> bool:
    """Send SIGTERM to a run on this machine, so that it saves its state; return whether its process was found."""
    try:
        process = psutil.Process(holder.pid)
        if abs(process.create_time() - holder.created) > CLOCK_SECONDS:
            return False  # the id now belongs to another process
        process.terminate()
    except psutil.Error:
        return False
    return True


def queue_of(runs: Path) -> dict[str, str]:
    """Return the state of each run in the cluster's queue; if Slurm does not respond, warn and return none."""
    try:
        return states_in_queue(runs)
    except LnReproError as error:
        warn(str(error))
        return {}
