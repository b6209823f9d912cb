"""Submit jobs to Slurm as an array, with submitit, and read the queue. Only this module uses Slurm and submitit.

Slurm's accounting is not needed, because only the queue is read; the state of a run is in its directory.
"""

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ln_repro.errors import LnReproError, UserError
from ln_repro.experiment.launcher_options import FLAGS
from ln_repro.sweep import queued
from ln_repro.sweep.devices import Device
from ln_repro.sweep.local import Pool
from ln_repro.sweep.plan import PlannedRun
from ln_repro.sweep.progress import Progress
from ln_repro.system.files import Json

INSTALL = "pip install 'ln-repro[slurm]'"
UNPREFIXED = {
    "timeout_min", "cpus_per_task", "gpus_per_node", "tasks_per_node", "mem_gb", "nodes", "name", "stderr_to_stdout",
}  # fmt: skip
"""Options that submitit supports for all kinds of clusters; the others get the prefix ``slurm_``."""
ADDRESS = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT")  # variables that say which Slurm to use, and by whom
LOGS = "logs"  # file with the names of the logs of an array's jobs, in their order
END_SECONDS = 300.0  # time that a job waits for Slurm to end it after its runs have saved their state
PATIENCE_SECONDS = 180.0
"""Time that a job waits for runs that other processes hold: longer than the lock of a node that died."""
ARRAY_SIZE = 1000  # number of jobs in an array; Slurm's default limit, MaxArraySize, is 1001
WAITING = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT")


@dataclass
class StackJob:
    """A job that trains a stack of runs; on Slurm's warning, it lets them save their state and asks to be requeued."""

    plan: Mapping[Path, PlannedRun]  # by the file with the experiment, which is there until the run has ended
    runs: Path  # the runs folder
    retries: int  # of a run that fails
    cancellations: queued.Cancellations  # those since the submission
    pool: Pool | None = None
    folder: Path = field(default_factory=Path.cwd)  # that relative paths in the experiments begin in

    def __call__(self) -> None:
        """Run the experiments that have not ended, as a local sweep does on a machine for this stack alone."""
        os.chdir(self.folder)  # sbatch's chdir may be another one
        device, progress = Device("the job", 1, stack=len(self.plan)), Progress([*self.plan.values()])
        self.pool = Pool(
            [device], self.retries, self.runs / "sweep", self.cancellations, progress, patience=PATIENCE_SECONDS
        )
        self.pool.run_files({file: planned for file, planned in self.plan.items() if file.exists()})
        if any(file.exists() for file in self.plan):  # depending on Slurm's configuration, runs are warned, too
            time.sleep(END_SECONDS)

    def checkpoint(self) -> Any:
        """Let the runs save their state and ask to be requeued; submitit calls this on Slurm's warning."""
        from submitit.helpers import DelayedSubmission

        if self.pool:
            self.pool.stop()
        return DelayedSubmission(replace(self, pool=None))


@dataclass(frozen=True)
class Job:
    """A job in Slurm's queue: its name, its state (``queued`` or ``running``), and our tag, its comment."""

    name: str
    state: str
    tag: str

    @property
    def index(self) -> int:
        """The index in the array; 0 for a single job, which submitit does not submit as an array."""
        index = self.name.partition("_")[2]
        return int(index) if index.isdecimal() else 0


def require(options: Json, dry_run: bool = False) -> None:
    """Raise `UserError` unless jobs with these options can be submitted; a dry run needs neither submitit nor Slurm."""
    if "comment" in {*options, *(options.get("additional_parameters") or {})}:
        raise UserError("launcher.comment: a sweep recognises its jobs by their comment; leave it out")
    try:
        import submitit
    except ImportError:
        if dry_run:
            return
        raise UserError(f"launcher: slurm needs submitit ({INSTALL})") from None
    try:
        submitit.AutoExecutor("unused", cluster="debug").update_parameters(**_parameters(options))
    except (AssertionError, NameError, ValueError) as error:  # the last for srun_args with an open quotation mark
        what, _, _ = " ".join(str(error).split()).partition(". Valid arguments")
        raise UserError(f"launcher: {what}; for the options, see conf/slurm.yaml") from None
    if not dry_run and not shutil.which("sbatch"):
        raise UserError("launcher: sbatch not found; use a login node of the cluster, or leave out launcher=")


def _parameters(options: Json) -> Json:
    """Return the options under the names that submitit has for them, except one of its constructor.

    Options of sbatch that are false or None are left out, as is one whose negation (``no-requeue``) is given.
    """
    used = {key: value for key, value in options.items() if _is_set(value) or (key in FLAGS and value is not None)}
    used.pop("max_num_timeout", None)
    for key in ("setup", "teardown", "srun_args"):
        if isinstance(text := used.get(key), str):
            used[key] = shlex.split(text) if key == "srun_args" else [text]
    if more := used.get("additional_parameters"):
        # With underscores, as submitit has them: otherwise, sbatch would be given some options twice.
        more = {key.replace("-", "_"): value for key, value in more.items() if _is_set(value)}
        used["additional_parameters"] = {key: value for key, value in more.items() if f"no_{key}" not in more}
    return {key if key in UNPREFIXED else f"slurm_{key}": value for key, value in used.items()}


def _is_set(value: object) -> bool:
    return value is not None and value is not False


def submit(jobs: Sequence[StackJob], tag: str, options: Json, folder: Path) -> None:
    """Submit jobs as one array, in their order, of which ``array_parallelism`` run at a time.

    ``tag`` identifies the array in Slurm's queue, ``options`` are those of `conf/slurm.yaml`, and
    ``folder`` is for the job scripts and submitit's logs, whose names are written beside the files of the jobs.
    """
    import submitit

    if "\n" in str(folder):
        raise UserError("paths.runs: Slurm does not accept a folder with a line break in its name; choose another one")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        executor = submitit.AutoExecutor(folder, cluster="slurm", slurm_max_num_timeout=options["max_num_timeout"] or 0)
        executor.update_parameters(**_parameters({**options, "comment": tag}))
        with outside_jobs(), executor.batch():
            submitted = [executor.submit(job) for job in jobs]
    except (TypeError, ValueError) as error:
        raise UserError(f"launcher: {' '.join(str(error).split())}") from None
    except RuntimeError as error:  # submitit raises it for a command that failed
        queue()  # raises an error if Slurm does not respond: then the jobs may have been accepted
        raise UserError(f"launcher: Slurm refused the jobs: {' '.join(str(error).split())}") from None
    logs = [job.paths.stdout if options.get("stderr_to_stdout") else job.paths.stderr for job in submitted]
    next(iter(jobs[0].plan)).with_name(LOGS).write_text("".join(f"{log.name}\n" for log in logs))


def log_of(file: Path, folder: Path) -> Path | None:
    """Return the log, in ``folder``, of the job that was submitted for a run's file; None if that is not known."""
    with suppress(FileNotFoundError, IndexError):
        return folder / file.with_name(LOGS).read_text().splitlines()[queued.stack_of(file)]
    return None


@contextmanager
def outside_jobs() -> Iterator[None]:
    """Hide the variables of the job that this process may be part of: submitted jobs would inherit its limits."""
    from submitit.helpers import clean_env

    address = {name: os.environ[name] for name in ADDRESS if name in os.environ}
    with clean_env([name for name in os.environ if name.startswith("PMI")]):
        os.environ.update(address)
        yield


def queue() -> list[Job]:
    """Return the user's pending and running jobs, or raise `LnReproError` if Slurm does not respond."""
    output = _call(["squeue", "--noheader", "--array", "--user", str(os.getuid()), "--format", "%i|%T|%k"])
    lines = [line.split("|", 2) for line in output.splitlines() if line.count("|") >= 2]
    return [Job(name, "queued" if state in WAITING else "running", tag.strip()) for name, state, tag in lines]


def cancel(jobs: Iterable[str]) -> None:
    """Cancel jobs; those that are running save their state first."""
    if names := list(jobs):
        _call(["scancel", *names])


def _call(command: Sequence[str]) -> str:
    try:
        # Variables such as SQUEUE_STATES would hide some jobs; a comment of another job may not be UTF-8.
        variables = {name: value for name, value in os.environ.items() if not name.startswith("SQUEUE_")}
        result = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", check=False, timeout=120, env=variables
        )
    except FileNotFoundError:
        raise LnReproError(f"{command[0]} not found: this machine is not part of the cluster") from None
    except subprocess.TimeoutExpired:
        raise LnReproError(f"{command[0]} did not respond") from None
    if result.returncode:
        raise LnReproError(f"{command[0]} failed: {' '.join(result.stderr.split()) or f'exit {result.returncode}'}")
    return result.stdout
