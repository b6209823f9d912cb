"""A sweep on a cluster: submit the cells that are not in the queue yet, and watch until all have ended."""

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
from ln_repro.sweep.plan import Planned
from ln_repro.sweep.progress import Board
from ln_repro.system.directory_lock import taken

WATCH_SECONDS = 5.0
AT_WORK = ("queued", "running")


@dataclass(frozen=True)
class Handed:
    """A cell that Slurm has: its job, and the file of its experiment."""

    job: slurm.Job
    file: Path


def arrays(runs: Path) -> Path:
    """Return the folder of submitted cells; it has one folder for each job array, named like the array in Slurm."""
    return runs.absolute() / "sweep" / "slurm" / "queue"


def at_work(runs: Path) -> dict[str, Handed]:
    """Return each cell that Slurm has, by the name of the cell's directory.

    Raises:
        LnReproError: Slurm does not answer (it is asked only if cells were ever handed over).
    """
    ours = {folder.name: folder for folder in arrays(runs).glob("*")}
    jobs = [job for job in slurm.queue() if job.tag in ours] if ours else []
    cells = {tag: files.listed(ours[tag]) for tag in {job.tag for job in jobs}}
    found = [Handed(job, cells[job.tag][job.index]) for job in jobs if job.index in cells[job.tag]]
    return {files.name(handed.file): handed for handed in found}


def handed_over(runs: Path, name: str) -> Experiment | None:
    """Return the experiment of a submitted cell, given its run directory's name; None if it was not submitted."""
    file = next(arrays(runs).glob(f"*/*-{name}.json"), None)
    return files.read(file)[0] if file else None


def queued(runs: Path) -> dict[str, str]:
    """Return ``queued`` or ``running`` by the name of each cell's directory, for the cells that Slurm has.

    Raises:
        LnReproError: Slurm does not answer.
    """
    return {name: handed.job.state for name, handed in at_work(runs).items()}


def hand_over(plan: Sequence[Planned], runs: Path, options: Mapping[str, Any], retries: int) -> int:
    """Submit the cells that are neither done nor at work nor in the queue; return how many.

    Raises:
        UserError: Slurm, or submitit, refuses what is asked of it.
        LnReproError: Slurm does not answer, or another sweep is handing over.
    """
    with taken(runs / "sweep"):
        there = queued(runs)
        todo = [p for p in plan if not p.done and p.name not in there and not p.folder.holder]
        if todo:
            tag = (
                f"ln-repro-{uuid.uuid4().hex}"  # written first: whatever dies before Slurm answers, its queue knows it
            )
            written = files.write(todo, arrays(runs) / tag)
            cells = [
                slurm.CellJob(p.name, str(file), str(runs.absolute()), retries)
                for p, file in zip(todo, written, strict=True)
            ]
            slurm.submit(cells, tag, options, runs.absolute() / "sweep" / "slurm")
    return len(todo)


def _call_off(plan: Sequence[Planned], runs: Path) -> int:
    """Take the cells off the queue that still wait there; return how many."""
    names = {planned.name for planned in plan}
    waiting = [one.job for name, one in at_work(runs).items() if name in names and one.job.state == "queued"]
    slurm.cancel(job.name for job in waiting)
    return len(waiting)


def watch(plan: Sequence[Planned], board: Board, runs: Path, fail_fast: bool = False) -> None:
    """Return once no cell is at work or in the queue.

    Args:
        plan: the cells.
        board: shows where everything stands.
        runs: the runs folder.
        fail_fast: once a cell has ended without a record, take those off the queue that still wait.

    Raises:
        Interrupted: after Ctrl-C; the jobs go on.
    """
    ended: set[str] = set()
    try:
        while True:
            try:
                states = board.states()
                board.show()
            except LnReproError as error:  # of the queue: the next time, perhaps
                board.say(f"{error}; asking again")
                states = {planned.name: "running" for planned in plan if not planned.done}
            for planned in plan:
                if planned.name not in ended and planned.done:
                    ended.add(planned.name)
                    board.ended(planned)
            if fail_fast and any(not p.done and states[p.name] not in AT_WORK for p in plan):
                fail_fast = False
                board.say(f"--fail-fast: {_call_off(plan, runs)} cells are not started")
            if not any(state in AT_WORK for state in states.values()):
                break
            time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        raise Interrupted(
            "the jobs go on in the cluster; `ln-repro status` shows them, `ln-repro cancel` stops them"
        ) from None
    for planned in plan:
        if not planned.done:
            board.ended(planned, 1)
