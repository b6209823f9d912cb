"""Sweeps on this machine, with a separate `ln-repro run` process per run, as many at a time as the devices allow."""

import math
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TextIO

from ln_repro.errors import Interrupted, UserError
from ln_repro.sweep import queued
from ln_repro.sweep.devices import Device
from ln_repro.sweep.plan import PlannedRun
from ln_repro.sweep.progress import Progress
from ln_repro.system.distributed import ONE_BY_ONE
from ln_repro.system.signals import record_stop_signals

POLL_SECONDS = 0.5
OTHER_SWEEP_SECONDS = 5.0  # time between checks of a run that another sweep has started
FINAL = (0, UserError.exit_code, Interrupted.exit_code)
"""Exit codes after which a retry cannot help: of divergence (a result), invalid input, and a request to stop."""


@dataclass
class Waiting:
    """A run that has not been started yet."""

    planned: PlannedRun
    file: Path  # with its experiment
    failures: int = 0
    not_before: float = 0.0  # time of the next check, by the monotonic clock, if another process runs it


@dataclass
class Running:
    """A run that has been started."""

    waiting: Waiting
    device: Device
    process: subprocess.Popen[bytes]
    trainer: subprocess.Popen[bytes]  # that of the stack or, alone, the run's own
    cancelled: bool = False


@dataclass
class Pool:
    """Runs experiments in parallel, those that can be trained as one in stacks, and retries those that fail."""

    devices: Sequence[Device]
    retries: int  # of a run that fails, unless its input is invalid
    logs: Path  # the folder for the output of the runs
    cancellations: queued.Cancellations
    progress: Progress
    fail_fast: bool = False  # start no further runs once one has failed after all retries
    patience: float = math.inf  # time to do nothing but wait for runs that other processes have started
    waiting: list[Waiting] = field(default_factory=list)
    running: list[Running] = field(default_factory=list)
    stacks: dict["subprocess.Popen[bytes]", TextIO] = field(default_factory=dict)  # trainers and what they log

    def run(self, plan: Sequence[PlannedRun]) -> None:
        """Run all unfinished runs; return when each has ended, here or in another sweep.

        After SIGINT or SIGTERM, let every run save its state and raise `Interrupted`.
        """
        unfinished = [planned for planned in plan if not planned.done]
        self.logs.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="queue-", dir=self.logs) as queue:
            self.run_files(*queued.write([unfinished], Path(queue)))

    def run_files(self, plan: Mapping[Path, PlannedRun]) -> None:
        """Run a plan by its files like `run`; remove the file of each run that has ended and is not to be resumed."""
        self.waiting = [Waiting(planned, file) for file, planned in plan.items()]
        last_busy = time.monotonic()
        try:
            while self.waiting or self.running:
                self._watch_stacks()
                self._collect()
                self._apply_cancellations()
                self._start()
                if self.running:
                    last_busy = time.monotonic()
                elif time.monotonic() - last_busy > self.patience:
                    self._leave()
                self.progress.show()
                time.sleep(POLL_SECONDS)
        except KeyboardInterrupt:
            self.progress.say("stopping: every run saves its state")
            raise Interrupted("interrupted; the same command resumes the sweep") from None
        finally:
            self.stop()

    def _start(self) -> None:
        """Start as many runs, or stacks of runs, as the devices have capacity for."""
        for device in self.devices:
            busy = {running.trainer for running in self.running if running.device is device}
            for _ in range(device.slots - len(busy)):
                if stack := self._next(device.stack):
                    self._start_together(stack, device)

    def _next(self, most: int) -> list[Waiting]:
        """Return the next run and, if none of them has failed, up to ``most - 1`` that can be trained with it."""
        ready = self._ready()
        stack = [*islice(ready, 1)]
        if stack and most > 1 and not stack[0].failures:
            key = stack[0].planned.stack_key
            alike = (waiting for waiting in ready if waiting.planned.stack_key == key and not waiting.failures)
            stack += islice(alike, most - 1)
        return stack

    def _start_together(self, stack: list[Waiting], device: Device) -> None:
        files, logs = [waiting.file.absolute() for waiting in stack], [self._log(waiting) for waiting in stack]
        with record_stop_signals() as received:  # otherwise, `stop` would not know a process that has just begun
            if len(stack) == 1:
                trainer = queued.start(files[0], logs[0], device.environment)
                processes = [trainer]
            else:
                log = self.logs / f"stack-{stack[0].planned.name}.log"
                said = log.open("a+", encoding="utf-8", errors="replace")  # at the end of what an earlier stack said
                trainer, processes = queued.start_stack(files, logs, log, device.environment)
                self.stacks[trainer] = said
            for waiting, process in zip(stack, processes, strict=True):
                self.waiting.remove(waiting)
                self.running.append(Running(waiting, device, process, trainer))
        if received:
            raise KeyboardInterrupt

    def _ready(self) -> Iterator[Waiting]:
        """Yield the waiting runs that can be started; remove those that another sweep has finished."""
        now = time.monotonic()
        for waiting in list(self.waiting):
            if waiting.not_before > now:
                continue
            if waiting.planned.done or not waiting.file.exists():  # by another sweep, or another process of this job
                self.waiting.remove(waiting)
                self._end(waiting)
            elif waiting.planned.folder.holder:
                waiting.not_before = now + OTHER_SWEEP_SECONDS
            else:
                yield waiting

    def _watch_stacks(self) -> None:
        """Report stacks whose runs train one by one after all; close the logs of those that have ended."""
        for trainer, log in list(self.stacks.items()):
            ended = trainer.poll() is not None
            for line in log:
                if ONE_BY_ONE in line:
                    self.progress.say(line.rpartition(" | ")[2].strip())
            if ended:
                if trainer.returncode not in (0, Interrupted.exit_code):
                    cause = queued.reason(trainer.returncode, Path(log.name))
                    self.progress.say(f"the process that trains runs together: {cause} (see {log.name})")
                self.stacks.pop(trainer).close()

    def _collect(self) -> None:
        """Handle the runs whose processes have ended."""
        for running in list(self.running):
            if (status := running.process.poll()) is not None:
                self.running.remove(running)
                self._settle(running.waiting, running.process.pid, status)

    def _settle(self, waiting: Waiting, pid: int, status: int) -> None:
        """Report a run whose process has ended, or queue it again."""
        holder = waiting.planned.folder.holder
        if self.cancellations.pending(waiting.planned.name):
            status = Interrupted.exit_code  # even if it was killed by a signal that came as it ended
        if waiting.planned.done:
            self._end(waiting)
        elif holder and not (holder.is_local and holder.pid == pid):  # another sweep was faster
            self.waiting.append(waiting)
        elif status not in FINAL and waiting.failures < self.retries:
            waiting.failures += 1
            self.progress.say(f"{waiting.planned.label}: {queued.reason(status, self._log(waiting))}; trying again")
            self.waiting.insert(0 if self.fail_fast else len(self.waiting), waiting)
        else:
            self._end(waiting, status)
            if self.fail_fast and status != Interrupted.exit_code:
                self.progress.say(f"--fail-fast: queued runs not started: {len(self.waiting)}")
                self.waiting.clear()
                self.fail_fast, self.retries = False, 0  # runs that are still running are not tried again

    def _apply_cancellations(self) -> None:
        requested = self.cancellations.requested()
        for waiting in list(self.waiting):
            if requested & {waiting.planned.name, queued.ALL}:
                self.waiting.remove(waiting)
                self._end(waiting, Interrupted.exit_code)
        for running in self.running:
            if not running.cancelled and requested & {running.waiting.planned.name, queued.ALL}:
                running.cancelled = True
                running.process.terminate()

    def _end(self, waiting: Waiting, status: int = 0) -> None:
        """Report a run that is not tried again."""
        self.progress.ended(waiting.planned, status, self._log(waiting))
        if status != Interrupted.exit_code or self.cancellations.pending(waiting.planned.name):
            waiting.file.unlink(missing_ok=True)

    def _leave(self) -> None:
        """Leave waiting runs to the processes that have started them, and look at the others again."""
        for waiting in list(self.waiting):
            if holder := waiting.planned.folder.holder:
                self.progress.say(f"{waiting.planned.label}: left to {holder}, which has started it")
                waiting.file.unlink(missing_ok=True)
                self.waiting.remove(waiting)
            else:
                waiting.not_before = 0.0

    def stop(self) -> None:
        """Let the runs that are still running save their state and exit; kill those that take too long."""
        for running in self.running:
            running.process.terminate()
        processes = [*(running.process for running in self.running), *self.stacks]
        deadline = time.monotonic() + queued.STOP_SECONDS
        try:  # poll() and not wait(), which would block in a signal handler that has interrupted it
            while any(process.poll() is None for process in processes) and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)
        finally:  # also after Ctrl-C once more
            for process in processes:
                process.kill()

    def _log(self, waiting: Waiting) -> Path:
        return self.logs / f"{waiting.planned.name}.log"
