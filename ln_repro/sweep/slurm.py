"""Submit jobs to Slurm as one array, through submitit, and read the queue. No other module uses Slurm or submitit.

Slurm is asked only which jobs wait or run, so its accounting is not needed: the state of a run is in its directory.
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
from ln_repro.sweep import run_process
from ln_repro.sweep.cancellations import Cancellations

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
"""Options that submitit has for every kind of cluster; the others get the prefix ``slurm_``."""
POLL_SECONDS = 0.5
END_SECONDS = 300.0
"""How long a job whose run has saved waits for Slurm to end it."""
WAITING = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT")


class RunJob:
    """A job: it starts the run, and on Slurm's warning lets it save and asks to be queued again.

    submitit pickles it here and on the node, so it holds plain values only.

    Args:
        name: the name of the run's directory.
        file: the file of the experiment.
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
        """Start the run, and again if it fails; return the last exit code."""
        requests, status = Cancellations(Path(self.runs)), 0
        for _ in range(self.retries + 1):
            self.process = run_process.start(Path(self.file), Path(self.runs) / "sweep" / f"{self.name}.log")
            while (ended := self.process.poll()) is None:  # not wait(): a signal handler could not wait too
                time.sleep(POLL_SECONDS)
            status = ended
            if not run_process.worth_retrying(status):
                break
        if status == Interrupted.exit_code and not requests.pending(self.name):
            time.sleep(END_SECONDS)  # Slurm has warned the job, and queues it again once it has ended it
        return status

    def checkpoint(self) -> Any:
        """Let the run save its state, and ask to be queued again; submitit calls this on Slurm's warning."""
        from submitit.helpers import DelayedSubmission

        if self.process:
            self.process.terminate()  # Slurm's warning has reached it too, if it reaches every process of a job
            deadline = time.monotonic() + run_process.STOP_SECONDS
            while self.process.poll() is None and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS / 5)
        return DelayedSubmission(RunJob(self.name, self.file, self.runs, self.retries))


@dataclass(frozen=True)
class Job:
    """A job in Slurm's queue: its name, its state (``queued`` or ``running``), and the comment that we gave it."""

    name: str
    state: str
    tag: str

    @property
    def index(self) -> int:
        """Return the index in the array; a single job, of which submitit makes no array, has 0."""
        index = self.name.partition("_")[2]
        return int(index) if index.isdecimal() else 0


def require() -> None:
    """Check that jobs can be submitted to Slurm from here.

    Raises:
        UserError: something is missing.
    """
    try:
        import submitit  # noqa: F401
    except ImportError:
        raise UserError(f"launcher: slurm needs submitit ({INSTALL})") from None
    if not shutil.which("sbatch"):
        raise UserError("launcher: sbatch not found; use a login node of the cluster, or leave out launcher=")


def asks_for_gpus(options: Mapping[str, Any]) -> bool:
    """Return whether any of these options asks for a GPU."""
    more = options.get("additional_parameters")
    asked = {**options, **(more if isinstance(more, Mapping) else {})}
    return "gpu" in str(asked.get("gres")) or any(
        value for key, value in asked.items() if str(key).startswith(("gpus", "num_gpus"))
    )


def submit(jobs: Sequence[RunJob], tag: str, options: Mapping[str, Any], folder: Path) -> None:
    """Submit jobs as one array, of which ``array_parallelism`` run at a time; job N has index N.

    Args:
        jobs: the jobs.
        tag: identifies the array in Slurm's queue.
        options: those of `conf/hydra/launcher/slurm.yaml`.
        folder: for the job scripts and submitit's logs.

    Raises:
        UserError: an option does not exist, or Slurm refuses it.
    """
    import submitit

    if "\n" in str(folder):
        raise UserError("paths.runs: Slurm takes no folder with a line break in its name; choose another one")
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
    except RuntimeError as error:  # submitit raises it for a command that failed
        raise UserError(f"launcher: Slurm refused the jobs: {' '.join(str(error).split())}") from None


def queue() -> list[Job]:
    """Return the user's jobs that wait or run, by one call.

    Raises:
        LnReproError: Slurm does not answer.
    """
    said = _ask(["squeue", "--noheader", "--array", "--user", str(os.getuid()), "--format", "%i|%T|%k"])
    lines = [line.split("|", 2) for line in said.splitlines() if line.count("|") >= 2]
    return [Job(name, "queued" if state in WAITING else "running", tag.strip()) for name, state, tag in lines]


def cancel(jobs: Iterable[str]) -> None:
    """Cancel jobs; those that are running save their state first.

    Raises:
        LnReproError: Slurm does not answer.
    """
    if named := list(jobs):
        _ask(["scancel", *named])


def _ask(command: Sequence[str]) -> str:
    try:
        asked = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    except FileNotFoundError:
        raise LnReproError(f"{command[0]} not found: this machine is not part of the cluster") from None
    except subprocess.TimeoutExpired:
        raise LnReproError(f"{command[0]} does not answer; try again later") from None
    if asked.returncode:
        raise LnReproError(f"{command[0]} failed: {' '.join(asked.stderr.split()) or f'exit {asked.returncode}'}")
    return asked.stdout
