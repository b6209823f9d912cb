"""A sweep on a cluster: hand over the cells that nobody has handed over yet, and watch until all have ended."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ln_repro.errors import Interrupted, LnReproError
from ln_repro.sweep import slurm
from ln_repro.sweep.board import Board
from ln_repro.sweep.jobs import Jobs
from ln_repro.sweep.plan import Planned

WATCH_SECONDS = 5.0
AT_WORK = ("queued", "running")


def at_work(runs: Path) -> dict[str, slurm.Job]:
    """Return Slurm's job of each cell that it has, by the name of the cell's directory.

    Raises:
        LnReproError: Slurm does not answer (it is asked only if cells were ever handed over).
    """
    handed = Jobs(runs).read()
    known = {(job.tag, job.index): job for job in slurm.queue()} if handed else {}
    return {name: known[cell.tag, cell.index] for name, cell in handed.items() if (cell.tag, cell.index) in known}


def queued(runs: Path) -> dict[str, str]:
    """Return ``queued`` or ``running`` by the name of each cell's directory, for the cells that Slurm has.

    Raises:
        LnReproError: Slurm does not answer.
    """
    return {name: job.state for name, job in at_work(runs).items()}


def hand_over(plan: Sequence[Planned], runs: Path, options: Mapping[str, Any], retries: int) -> int:
    """Submit the cells that are neither done nor at work nor in the queue; return how many.

    Raises:
        UserError: Slurm, or submitit, refuses what is asked of it.
        LnReproError: Slurm does not answer, or another sweep is handing over.
    """
    jobs = Jobs(runs)
    with jobs.mine():
        there = queued(runs)
        todo = [p for p in plan if not p.done and p.name not in there and not p.folder.holder]
        if todo:
            tag = jobs.announce((p.name, p.cell.exp, p.cell.seed) for p in todo)
            cells = [slurm.CellJob(p.name, p.settled, str(runs.absolute()), retries) for p in todo]
            slurm.submit(cells, tag, options, runs.absolute() / "sweep" / "slurm")
    return len(todo)


def watch(plan: Sequence[Planned], board: Board) -> None:
    """Return once no cell is at work or in the queue.

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
