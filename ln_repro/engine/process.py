"""Start, monitor and stop the engine's processes. This module imports neither torch nor fairseq."""

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from ln_repro.engine.compat import INSTALL
from ln_repro.engine.inputs import Inputs
from ln_repro.errors import Interrupted, LnReproError, UserError
from ln_repro.experiment.settings import Experiment
from ln_repro.system import subprocesses
from ln_repro.system.distributed import STACK_SOCKET
from ln_repro.system.files import last_line
from ln_repro.system.signals import WARNINGS

KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**32)}
"""Settings that let glibc keep large blocks of memory. Returning them to the system and allocating them again at every
update would take a tenth of its time on a CPU."""
STOP_SECONDS = 60.0  # time that a worker has to save its state before it is killed
KEEP_SECONDS = 60.0
"""Idle time after which the decoding process is stopped. Starting it takes seconds, which matters for short epochs."""


class Worker(subprocess.Popen[bytes]):
    """A process of the engine, which stops if its standard input is closed because this process has ended.

    ``job`` is one of `ln_repro.engine.worker`, ``inherit`` the descriptors of files that stay open and locked while the
    worker lives, and ``settings`` are environment variables; with ``on_cpu``, the worker sees no GPU.
    """

    module = "ln_repro.engine.worker"

    def __init__(
        self, job: str, arguments: Sequence[str], log: Path, threads: int = 1, inherit: Sequence[int] = (),
        settings: Mapping[str, str] = KEEP_MEMORY, on_cpu: bool = False,
    ) -> None:  # fmt: skip
        require_fairseq()
        self.job = job
        self.log = log
        with log.open("ab") as output:
            super().__init__(
                [*subprocesses.SELF, "-m", self.module, job, *arguments],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_environment(threads, settings, on_cpu),
                start_new_session=True,  # Ctrl-C must not interrupt it directly
                preexec_fn=_ignore_signals,
                pass_fds=inherit,
            )

    def send(self, line: str) -> None:
        """Write a line to the worker's standard input; do nothing if it has ended (see `check`)."""
        assert self.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.stdin.write(f"{line}\n".encode())
            self.stdin.flush()

    def stop(self) -> None:
        """Let the worker save its state, wait for its end, and kill it after `STOP_SECONDS`."""
        self.terminate()
        try:
            self.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            self.wait()

    def check(self) -> None:
        """Raise an error if the worker has failed: `Interrupted` if it was stopped and has saved its state."""
        status = self.poll()
        if status == Interrupted.exit_code:
            raise Interrupted(f"{self.job} was stopped and has saved its state; the same command resumes it")
        if status and shutil.disk_usage(self.log.parent).free < 1e6:  # bytes
            raise LnReproError(f"{self.log.parent}: the disk is full; free some space and run the same command again")
        if status and status < 0:
            raise LnReproError(f"{self.job} {subprocesses.killed(status)} (see {self.log})")
        if status:
            reason = f"{last_line(self.log) or 'no output'} (see {self.log})"
            raise UserError(reason) if status == UserError.exit_code else LnReproError(f"{self.job} failed: {reason}")


class DecodingProcess:
    """At most one decoding process, started on request and stopped after `KEEP_SECONDS` without another one."""

    def __init__(self, inputs: Inputs, log: Path, inherit: Sequence[int] = ()) -> None:
        self.inputs = inputs
        self.log = log
        self.inherit = inherit
        self.worker: Worker | None = None
        self._awaited: Path | None = None  # the requested file, until `done` has returned True
        self._since = 0.0

    def request(self, split: str, weights: Sequence[Path], out: Path) -> None:
        """Request the hypotheses of ``split`` for the mean of some weights; the one before must be `done`."""
        out.unlink(missing_ok=True)  # from an interrupted session
        if self.worker is None or self.worker.poll() is not None:
            inputs = self.inputs
            self.worker = Worker("decode", inputs.arguments, self.log, inherit=self.inherit, on_cpu=inputs.on_cpu)
        self.worker.send(json.dumps({"split": split, "weights": [*map(str, weights)], "out": str(out)}))
        self._awaited = out

    def done(self) -> bool:
        """Return True once when the requested file exists; raise `Worker.check`'s error if the process ended early."""
        if self._awaited is None or self.worker is None:
            return False
        if not self._awaited.exists():
            self.worker.check()
            return False
        self._awaited, self._since = None, time.monotonic()
        return True

    def stop_if_idle(self) -> None:
        """Stop the process, which occupies memory, if it has been idle for `KEEP_SECONDS`."""
        if self._awaited is None and time.monotonic() - self._since > KEEP_SECONDS:
            self.stop()

    def stop(self) -> None:
        if self.worker is not None:
            self.worker.stop()
            self.worker = None


def require_fairseq() -> None:
    """Raise an error that shows how to install fairseq if it is not installed."""
    if importlib.util.find_spec("fairseq") is None:
        raise LnReproError(f"fairseq is not installed; run: {INSTALL}")


def start_trainer(inputs: Inputs, log: Path, lock: int) -> Worker:
    """Start the process that trains a run or, in a stack, the one that has it trained; it inherits the run's lock."""
    if socket := os.environ.get(STACK_SOCKET):
        return Worker("train-in-stack", [socket, str(lock), *inputs.arguments], log, inherit=(int(socket), lock))
    return Worker("train", inputs.arguments, log, inputs.experiment.train.threads, (lock,), on_cpu=inputs.on_cpu)


def become_stack_trainer(experiment: Experiment, descriptors: Sequence[str]) -> NoReturn:
    """Replace this process by one that trains several runs like ``experiment``, at the other ends of some sockets."""
    _become(["stack", *descriptors], _environment(experiment.train.threads, on_cpu=experiment.train.device == "cpu"))


def follow_rank_zero() -> NoReturn:
    """Replace this process by a trainer that takes part in the run of the first process under torchrun."""
    _become(["follow"], _environment(os.environ.get("OMP_NUM_THREADS") or "1"))  # torchrun sets it for several


def release_ranks(log: Path) -> None:
    """Tell the processes in `follow_rank_zero` that there is nothing to train."""
    worker = Worker("release", [], log)
    worker.wait()
    worker.check()


def _become(arguments: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Replace this process by a worker with these arguments."""
    require_fairseq()
    _ignore_signals()
    os.execve(subprocesses.SELF[0], [*subprocesses.SELF, "-m", Worker.module, *arguments], environment)


def _environment(threads: int | str, settings: Mapping[str, str] = KEEP_MEMORY, on_cpu: bool = False) -> dict[str, str]:
    """Return the environment of a worker, without the variables of wandb, which are only for the mirror."""
    if on_cpu:
        settings = {**settings, "CUDA_VISIBLE_DEVICES": ""}  # otherwise pinned memory would occupy a GPU
    environment = subprocesses.environment(OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads), **settings)
    return {name: value for name, value in environment.items() if not name.startswith("WANDB_")}


def _ignore_signals() -> None:
    """Ignore signals that only the command handles, such as a cluster's warning to all processes of a job."""
    for name in WARNINGS:
        signal.signal(name, signal.SIG_IGN)
