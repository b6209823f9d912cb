"""Start, monitor and stop the engine's processes. This module imports neither torch nor fairseq."""

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from ln_repro.engine.compat import INSTALL
from ln_repro.errors import Interrupted, LnReproError, UserError
from ln_repro.system import subprocesses
from ln_repro.system.files import MEGABYTE

STRAY_SIGNALS = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
INTERRUPTED = Interrupted.exit_code
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**32)}
"""Settings that let glibc keep large blocks of memory. Returning them to the system and allocating them again at every
update would take a tenth of its time on a CPU."""
STOP_SECONDS = 60.0
"""Time that a worker has to save its state before it is killed."""


class Worker:
    """A process of the engine, which stops if its standard input is closed because this process has ended.

    Args:
        job: a job of `ln_repro.engine.worker`.
        arguments: the arguments of the job.
        log: the file that its output is appended to.
        threads: number of CPU threads.
        inherit: descriptor of an open file that stays locked while the worker lives.
        settings: additional environment variables.
    """

    def __init__(
        self, job: str, arguments: Sequence[str], log: Path, threads: int = 1, inherit: int | None = None,
        settings: Mapping[str, str] = KEEP_MEMORY,
    ) -> None:  # fmt: skip
        require_fairseq()
        if "--cpu" in arguments:
            settings = {**settings, "CUDA_VISIBLE_DEVICES": ""}  # otherwise pinned memory would occupy a GPU
        self.job = job
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [*subprocesses.SELF, "-m", "ln_repro.engine.worker", job, *arguments],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=subprocesses.environment(OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads), **settings),
                start_new_session=True,  # Ctrl-C must not interrupt it directly
                preexec_fn=_ignore_signals,
                pass_fds=() if inherit is None else (inherit,),
            )

    def poll(self) -> int | None:
        """Return the exit status, or None while the worker runs."""
        return self.process.poll()

    def send(self, line: str) -> None:
        """Write a line to the worker's standard input; do nothing if it has ended (see `check`)."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f"{line}\n".encode())
            self.process.stdin.flush()

    def wait(self) -> int:
        """Wait for the end and return the exit status."""
        return self.process.wait()

    def terminate(self) -> None:
        """Send SIGTERM, which makes the worker save its state and stop; may be called again."""
        self.process.terminate()

    def stop(self) -> None:
        """Terminate the worker and wait for it; kill it after `STOP_SECONDS`."""
        if self.poll() is None:
            self.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def kill(self) -> None:
        """Kill the worker without saving its state."""
        self.process.kill()
        self.process.wait()

    def check(self) -> None:
        """Raise an error if the worker has failed.

        Raises:
            Interrupted: it was stopped, and has saved its state.
            UserError: the disk is full.
            LnReproError: any other failure, with the last line of its log.
        """
        status = self.poll()
        if status == INTERRUPTED:
            raise Interrupted(f"{self.job} was stopped and has saved its state; the same command resumes it")
        if status and shutil.disk_usage(self.log.parent).free < MEGABYTE:
            raise UserError(f"{self.log.parent}: the disk is full; free some space and give the same command again")
        if status and status < 0:
            raise LnReproError(f"{self.job} {subprocesses.killed(status)} (see {self.log})")
        if status:
            raise LnReproError(f"{self.job} failed (exit {status}): {_last_line(self.log)} (see {self.log})")


def require_fairseq() -> None:
    """Raise an error that shows how to install fairseq if it is not installed."""
    if importlib.util.find_spec("fairseq") is None:
        raise LnReproError(f"fairseq is not installed; run: {INSTALL}")


def follow_rank_zero() -> NoReturn:
    """Replace this process by a trainer that takes part in the run of the first process."""
    require_fairseq()
    os.execve(
        subprocesses.SELF[0], [*subprocesses.SELF, "-m", "ln_repro.engine.worker", "follow"], subprocesses.environment()
    )


def release_ranks(log: Path) -> None:
    """Tell the processes in `follow_rank_zero` that there is nothing to train."""
    worker = Worker("release", [], log)
    worker.wait()
    worker.check()


def _ignore_signals() -> None:
    """Ignore signals that only the command handles, such as a cluster's warning to all processes of a job."""
    for name in STRAY_SIGNALS:
        signal.signal(name, signal.SIG_IGN)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n") if log.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "no output")
