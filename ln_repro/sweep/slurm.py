"""Slurm, through submitit: one array of jobs, one question for the state of all. The only place that knows either.

The truth about a run is in its directory. Slurm is asked what waits or runs, and never what became of a job that is
gone, so nothing here needs its accounting.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ln_repro.errors import Interrupted, LnReproError, UserError
from ln_repro.sweep import cell
from ln_repro.sweep.requests import Requests

INSTALL = "pip install 'ln-repro[slurm]'"
UNPREFIXED = {
    "timeout_min",
    "cpus_per_task",
    "gpus_per_node",
    "tasks_per_node",
    "mem_gb",
    "nodes",
    "name",
    "stderr_to_stdout",
}
"""Options that submitit has for every kind of cluster; the others get its prefix."""
POLL_SECONDS = 0.5
END_SECONDS = 300.0
"""How long a job whose run has saved waits for Slurm to end it."""
WAITING = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT")


class CellJob:
    """What a job does: run a cell, and on the cluster's warning let it save, and queue the job again.

    submitit pickles it, here and on the node, so it holds plain values; where it runs it finds the state that the
    run itself has left.

    Args:
        name: of the run's directory.
        file: the queued experiment.
        runs: the runs folder.
        retries: how often a run that fails is tried again.
    """

    def __init__(self, name: str, file: str, runs: str, retries: int) -> None:
        self.name = name
        self.file = file
        self.runs = runs
        self.retries = retries
        self.process: subprocess.Popen[bytes] | None = None

    def __call__(self) -> int:
        """Run the cell, again if it fails; return the last exit status."""
        requests, status = Requests(Path(self.runs)), 0
        for _ in range(self.retries + 1):
            self.process = cell.start(Path(self.file), Path(self.runs) / "sweep" / f"{self.name}.log")
            while (ended := self.process.poll()) is None:  # not wait(): a signal in the middle of it could not wait too
                time.sleep(POLL_SECONDS)
            status = ended
            if not cell.worth_retrying(status):
                break
        if status == Interrupted.exit_code and not requests.pending(self.name):
            time.sleep(END_SECONDS)  # Slurm has asked, and is about to end the job; only then does it queue it again
        return status

    def checkpoint(self) -> Any:
        """Let the run save, and ask submitit to queue us again; it calls this on the cluster's warning."""
        from submitit.helpers import DelayedSubmission

        if self.process:
            self.process.terminate()  # Slurm's warning has reached it too, if it reaches every process of a job
            deadline = time.monotonic() + cell.STOP_SECONDS
            while self.process.poll() is None and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS / 5)
        return DelayedSubmission(CellJob(self.name, self.file, self.runs, self.retries))


@dataclass(frozen=True)
class Job:
    """A job as Slurm knows it: its name there, ``queued`` or ``running``, and the mark we gave it."""

    name: str
    state: str
    tag: str

    @property
    def index(self) -> int:
        """Return its place in its array; submitit makes none for a single job, which is the first then."""
        index = self.name.partition("_")[2]
        return int(index) if index.isdecimal() else 0


def require() -> None:
    """Raise unless cells can be handed to Slurm from here.

    Raises:
        UserError: with what is missing.
    """
    try:
        import submitit  # noqa: F401
    except ImportError:
        raise UserError(f"launcher: slurm needs submitit; type: {INSTALL}") from None
    if not shutil.which("sbatch"):
        raise UserError("launcher: there is no sbatch here; start the sweep on a login node of the cluster, or locally")


def asks_for_gpus(options: Mapping[str, Any]) -> bool:
    """Return whether jobs with these options get a GPU, in whatever way they ask for one."""
    more = options.get("additional_parameters")
    asked = {**options, **(more if isinstance(more, Mapping) else {})}
    return "gpu" in str(asked.get("gres")) or any(
        value for key, value in asked.items() if str(key).startswith(("gpus", "num_gpus"))
    )


def submit(jobs: Sequence[CellJob], tag: str, options: Mapping[str, Any], folder: Path) -> None:
    """Hand jobs over as one array, held back by ``array_parallelism``; job N is the N-th of it.

    Args:
        jobs: what is to be run.
        tag: marks the array in Slurm's queue.
        options: of `conf/hydra/launcher/slurm.yaml`.
        folder: takes the job scripts and what submitit writes.

    Raises:
        UserError: an option that there is not, or that Slurm refuses.
    """
    import submitit

    if "\n" in str(folder):
        raise UserError("paths.runs: a line feed in its name cannot be said to Slurm; choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    given = {key: value for key, value in options.items() if value is not None} | {"comment": tag}
    executor = submitit.AutoExecutor(folder, cluster="slurm", slurm_max_num_timeout=given.pop("max_num_timeout", 3))
    try:
        executor.update_parameters(
            **{key if key in UNPREFIXED else f"slurm_{key}": value for key, value in given.items()}
        )
        with executor.batch():
            for job in jobs:
                executor.submit(job)
    except (NameError, TypeError, ValueError) as error:
        raise UserError(f"launcher: {' '.join(str(error).split())}") from None
    except RuntimeError as error:  # submitit's, of a command that failed
        raise UserError(f"launcher: Slurm refused the jobs: {' '.join(str(error).split())}") from None


def queue() -> list[Job]:
    """Return the user's jobs that wait or run: one question for all.

    Raises:
        LnReproError: Slurm does not answer.
    """
    said = _ask(["squeue", "--noheader", "--array", "--user", str(os.getuid()), "--format", "%i|%T|%k"])
    lines = [line.split("|", 2) for line in said.splitlines() if line.count("|") >= 2]
    return [Job(name, "queued" if state in WAITING else "running", tag.strip()) for name, state, tag in lines]


def cancel(jobs: Iterable[str]) -> None:
    """Take jobs off the queue; those at work are asked to save first.

    Raises:
        LnReproError: Slurm does not answer.
    """
    if named := list(jobs):
        _ask(["scancel", *named])


def _ask(command: Sequence[str]) -> str:
    try:
        asked = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    except FileNotFoundError:
        raise LnReproError(f"{command[0]} is not here: this is no machine of the cluster") from None
    except subprocess.TimeoutExpired:
        raise LnReproError(f"{command[0]} does not answer; try again later") from None
    if asked.returncode:
        raise LnReproError(f"{command[0]} failed: {' '.join(asked.stderr.split()) or f'exit {asked.returncode}'}")
    return asked.stdout
