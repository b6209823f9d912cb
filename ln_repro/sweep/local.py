"""A pool on this machine: every cell is an `ln-repro run` of its own, as many at once as there is room for."""

import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ln_repro.errors import Interrupted
from ln_repro.sweep import cell, queued
from ln_repro.sweep.budget import Budget
from ln_repro.sweep.devices import Place
from ln_repro.sweep.pace import Pace
from ln_repro.sweep.plan import Planned
from ln_repro.sweep.progress import Board
from ln_repro.sweep.requests import Requests

POLL_SECONDS = 0.5
ELSEWHERE_SECONDS = 5.0
"""How often a cell that another sweep is at work on is looked at again."""


@dataclass
class Waiting:
    """A cell that is to be run."""

    planned: Planned
    file: Path
    """Its experiment, as it was typed."""
    failures: int = 0
    look_again: float = 0.0
    """Not before this time of the steady clock: another process is at work on it."""


@dataclass
class Running:
    """A cell at work."""

    waiting: Waiting
    place: Place
    process: subprocess.Popen[bytes]


class Pool:
    """Runs cells side by side; one that fails is tried again, and does not stop the others.

    Args:
        places: where they go.
        retries: how often a cell is tried again that fails, and not for its input's sake.
        logs: the folder of what the cells say, one file each.
        requests: those to stop a cell, from this machine or another.
        board: shows where everything stands.
        budget: the time that all of it may take.
        fail_fast: start no further cell once one has failed and is not tried again.
    """

    def __init__(
        self, places: Sequence[Place], retries: int, logs: Path, requests: Requests, board: Board, budget: Budget,
        fail_fast: bool = False,
    ) -> None:  # fmt: skip
        self.places = places
        self.retries = retries
        self.logs = logs
        self.requests = requests
        self.board = board
        self.budget = budget
        self.fail_fast = fail_fast
        self.waiting: list[Waiting] = []
        self.running: list[Running] = []
        self.paces = {place.name: Pace(place.packing) for place in places}

    def run(self, plan: Sequence[Planned]) -> None:
        """Bring every cell to an end, here or, where another sweep is at work on it, there.

        Raises:
            Interrupted: after Ctrl-C; every run has saved its state.
        """
        left = [planned for planned in plan if not planned.done]
        self.logs.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="queue-", dir=self.logs) as queue:
            self.waiting = [Waiting(*one) for one in zip(left, queued.write(left, Path(queue)), strict=True)]
            self._run()

    def _run(self) -> None:
        try:
            while self.waiting or self.running:
                self._collect()
                self._measure()
                self._obey()
                while self._start_one():
                    pass
                self._keep_to_the_budget()
                self.board.show()
                time.sleep(POLL_SECONDS)
        except KeyboardInterrupt:
            self.board.say("stopping: every run saves its state")
            self._stop()
            raise Interrupted("interrupted; the same sweep goes on") from None
        except BaseException:
            self._stop()
            raise

    def _start_one(self) -> bool:
        """Start the first waiting cell that nobody is at work on, if there is room; return whether one was."""
        for place in self.places:
            here = [running.process.pid for running in self._at(place)]
            if self.waiting and place.has_room(here) and (waiting := self._next()):
                self.waiting.remove(waiting)
                process = cell.start(waiting.file.absolute(), self._log(waiting), place.environment)
                self.running.append(Running(waiting, place, process))
                return True
        return False

    def _at(self, place: Place) -> list[Running]:
        return [running for running in self.running if running.place is place]

    def _measure(self) -> None:
        """Let every place see how fast its runs are, and so how many of them it is to take."""
        for place in self.places:
            here = {running.waiting.planned.name: running.waiting.planned.folder.events for running in self._at(place)}
            if self.paces[place.name].look(here):
                self.board.say(f"{place.name}: {place.packing}")
        self.board.note = "; ".join(f"{place.name}: {place.packing}" for place in self.places if place.packing.measured)

    def _next(self) -> Waiting | None:
        now = time.monotonic()
        for waiting in list(self.waiting):
            if waiting.look_again > now:
                continue
            if waiting.planned.done:  # by another sweep
                self.waiting.remove(waiting)
                self.board.ended(waiting.planned)
            elif not self._fits(waiting):
                continue
            elif waiting.planned.folder.holder:
                waiting.look_again = now + ELSEWHERE_SECONDS
            else:
                return waiting
        return None

    def _collect(self) -> None:
        """Take note of the runs that have ended; those worth it wait again."""
        for running in list(self.running):
            status = running.process.poll()
            if status is None:
                continue
            self.running.remove(running)
            waiting, holder = running.waiting, running.waiting.planned.folder.holder
            if waiting.planned.done:
                self.paces[running.place.name].finished(waiting.planned.name)
                self.board.ended(waiting.planned)
            elif holder and not (holder.here and holder.pid == running.process.pid):  # another was quicker
                self.waiting.append(waiting)
            elif cell.worth_retrying(status) and waiting.failures < self.retries:
                waiting.failures += 1
                self.board.say(f"{waiting.planned.label}: {cell.reason(status, self._log(waiting))}; once more")
                self.waiting.insert(0 if self.fail_fast else len(self.waiting), waiting)
            else:
                self.board.ended(waiting.planned, status, self._log(waiting))
                if self.fail_fast and status != Interrupted.exit_code:
                    self.board.say(f"--fail-fast: {len(self.waiting)} cells are not started")
                    self.waiting.clear()

    def _obey(self) -> None:
        """Stop the cells that somebody has asked to stop."""
        for waiting in list(self.waiting):
            if self.requests.pending(waiting.planned.name):
                self.waiting.remove(waiting)
                self.board.ended(waiting.planned, Interrupted.exit_code)
        for running in self.running:
            if self.requests.pending(running.waiting.planned.name):
                running.process.terminate()

    def _keep_to_the_budget(self) -> None:
        """Leave off once the time is used up, or nothing runs and nothing that waits can end in it.

        Raises:
            Interrupted: what is left is for the next time; every run has saved its state.
        """
        if self.budget.over or (self.waiting and not self.running and not any(map(self._fits, self.waiting))):
            self._stop()
            cells = [*self.waiting, *(running.waiting for running in self.running)]
            if left := sum(not waiting.planned.done for waiting in cells):
                raise Interrupted(f"the time is used up with {left} cells left; the same sweep goes on")

    def _fits(self, waiting: Waiting) -> bool:
        return self.budget.fits(waiting.planned)

    def _stop(self) -> None:
        """Let every run save and end; one that does not is killed."""
        for running in self.running:
            running.process.terminate()
        deadline = time.monotonic() + cell.STOP_SECONDS
        for running in self.running:
            try:
                running.process.wait(max(0.0, deadline - time.monotonic()))
            except (subprocess.TimeoutExpired, KeyboardInterrupt):  # or Ctrl-C once more
                running.process.kill()
                running.process.wait()

    def _log(self, waiting: Waiting) -> Path:
        return self.logs / f"{waiting.planned.name}.log"
