"""Start, watch and stop the engine's processes. Neither torch nor fairseq is imported here."""

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
"""Lets glibc keep large blocks. It would give them back at every update and get them again page by page, which takes a
tenth of an update on a CPU (`results/bench`, ``without/memory``)."""
STOP_SECONDS = 60.0
"""How long a worker gets to save before it is killed."""


class Worker:
    """A process of the engine. It ends when we do: it reads the pipe that only we hold open.

    Args:
        job: one of `ln_repro.engine.worker`'s.
        arguments: what the job gets.
        log: its output goes here, appended.
        threads: CPU threads.
        inherit: an open file that stays locked as long as the worker lives.
        settings: of its environment.
    """

    def __init__(
        self, job: str, arguments: Sequence[str], log: Path, threads: int = 1, inherit: int | None = None,
        settings: Mapping[str, str] = KEEP_MEMORY,
    ) -> None:  # fmt: skip
        require_fairseq()
        self.job = job
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [*subprocesses.SELF, "-m", "ln_repro.engine.worker", job, *arguments],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=subprocesses.environment(OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads), **settings),
                start_new_session=True,  # Ctrl-C on the terminal reaches us alone; we pass it on
                preexec_fn=_ignore_stray_signals,
                pass_fds=() if inherit is None else (inherit,),
            )

    def poll(self) -> int | None:
        """Return the exit status, or None while the worker runs."""
        return self.process.poll()

    def ask(self, line: str) -> None:
        """Ask for something that the job understands. A worker that is no more does not hear it: see `check`."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f"{line}\n".encode())
            self.process.stdin.flush()

    def wait(self) -> int:
        """Wait for the end and return the exit status."""
        return self.process.wait()

    def ask_to_end(self) -> None:
        """Ask the worker to save and end; that may be asked again."""
        self.process.terminate()

    def stop(self) -> None:
        """Ask the worker to save and end, and wait for it; kill it if it does not."""
        if self.poll() is None:
            self.ask_to_end()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def kill(self) -> None:
        """End the worker at once; it saves nothing."""
        self.process.kill()
        self.process.wait()

    def check(self) -> None:
        """Raise unless the worker ended well.

        Raises:
            Interrupted: it was asked to stop, and has saved.
            UserError: the disk has filled up.
            LnReproError: with the last line that the worker said, and its log.
        """
        status = self.poll()
        if status == INTERRUPTED:
            raise Interrupted(f"{self.job} was stopped and has saved its state; the same command goes on")
        if status and shutil.disk_usage(self.log.parent).free < MEGABYTE:
            raise UserError(f"{self.log.parent}: the disk is full; free some room, and the same command goes on")
        if status and status < 0:
            raise LnReproError(f"{self.job} {subprocesses.killed(status)} (see {self.log})")
        if status:
            raise LnReproError(f"{self.job} failed (exit {status}): {_last_line(self.log)} (see {self.log})")


def require_fairseq() -> None:
    """Raise unless fairseq is installed, saying exactly what to type."""
    if importlib.util.find_spec("fairseq") is None:
        raise LnReproError(f"fairseq is not installed; type: {INSTALL}")


def binarise(text: Path, out: Path, source_lang: str, target_lang: str) -> None:
    """Binarise a prepared corpus; blocks until it is done."""
    out.mkdir(parents=True, exist_ok=True)
    worker = Worker("binarise", [str(text), str(out), source_lang, target_lang], out / "binarise.log")
    try:
        worker.wait()
    except BaseException:
        worker.stop()
        raise
    worker.check()


def follow_rank_zero() -> NoReturn:
    """Become a trainer that does what the first process of this run tells it."""
    require_fairseq()
    os.execve(
        subprocesses.SELF[0], [*subprocesses.SELF, "-m", "ln_repro.engine.worker", "follow"], subprocesses.environment()
    )


def release_ranks(log: Path) -> None:
    """Tell those that `join` that there is nothing to train."""
    worker = Worker("release", [], log)
    worker.wait()
    worker.check()


def _ignore_stray_signals() -> None:
    """Survive signals meant for the command, such as a cluster's warning sent to every process of a job."""
    for name in STRAY_SIGNALS:
        signal.signal(name, signal.SIG_IGN)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n") if log.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "no output")
