"""The queued runs of a sweep: their files, their processes, and requests to stop them.

A file has one composed experiment, so that later edits of YAML files do not affect it. A process is `ln-repro run` in a
session of its own and with a log. A request is a file that sweeps on all machines with access to the folder can see.
"""

import socket
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from ln_repro.errors import UserError
from ln_repro.experiment.settings import Experiment, build
from ln_repro.records.run_dir import write_json
from ln_repro.sweep.plan import PlannedRun
from ln_repro.system import subprocesses
from ln_repro.system.distributed import STACK_SOCKET
from ln_repro.system.files import last_line, read_json

STOP_SECONDS = 90.0  # time limit for a run to save its state; longer than the limit for its own workers
ALL = "ALL"


def write(stacks: Iterable[Sequence[PlannedRun]], folder: Path) -> list[dict[Path, PlannedRun]]:
    """Write the runs of some stacks to ``folder``; return those of each stack by their files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [
        {folder / f"{index}-{planned.name}.json": planned for planned in stack} for index, stack in enumerate(stacks)
    ]
    for stack in written:
        for file, planned in stack.items():
            write_json(file, planned.experiment.model_dump(mode="json"))
    return written


def stack_of(file: Path) -> int:
    """Return the index of the stack of the run in a file."""
    return int(file.stem.partition("-")[0])


def read(file: Path) -> Experiment:
    """Return the experiment in a file, or raise `UserError` if it is gone or damaged."""
    content = read_json(file, dict)
    if content is None:
        raise UserError(f"{file}: the queued experiment no longer exists; start the sweep again")
    return build(content)


def start(file: Path, log: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start the run that is queued in ``file`` and append its output to ``log``; it does not receive our signals."""
    return subprocesses.start_command(["run", f"--queued={file}"], log, environment)


def start_stack(
    files: Sequence[Path], logs: Sequence[Path], log: Path, environment: Mapping[str, str]
) -> tuple["subprocess.Popen[bytes]", list["subprocess.Popen[bytes]"]]:
    """Start the runs that are queued in ``files``, each with its own log, and a process that trains them as one.

    Returns:
        That process, which ends after the runs, and those of the runs. Each of these is connected to it by a socket.
    """
    with ExitStack() as sockets:
        pairs = [[sockets.enter_context(end).fileno() for end in socket.socketpair()] for _ in files]
        trainer_ends, run_ends = zip(*pairs, strict=True)
        words = ["run", f"--queued={files[0]}", f"--stack={','.join(map(str, trainer_ends))}"]
        started = [subprocesses.start_command(words, log, environment, trainer_ends)]
        try:
            for file, log_of_run, end in zip(files, logs, run_ends, strict=True):
                of_run = {**environment, STACK_SOCKET: str(end)}
                started.append(subprocesses.start_command(["run", f"--queued={file}"], log_of_run, of_run, [end]))
        except BaseException:  # too many processes: nobody else knows those that have been started
            for process in started:
                process.terminate()
            raise
        return started[0], started[1:]


def reason(status: int, log: Path) -> str:
    """Return why a run ended without a record, in one line: the signal that killed it, or its last line of output."""
    if status < 0:
        return subprocesses.killed(status)
    return (last_line(log) or "no output").removeprefix("ln-repro: ")


class Cancellations:
    """The requests to stop runs in a runs folder, each a numbered file; those before number ``begin`` are ignored.

    By default, all are ignored that were made before this object was created.
    """

    def __init__(self, runs: Path, begin: int | None = None) -> None:
        self.folder = runs / "sweep" / "requests"
        self.begin = self._next() if begin is None else begin

    def request(self, names: Iterable[str]) -> None:
        """Request that runs be stopped, by the names of their directories (``ALL``: every run)."""
        self.folder.mkdir(parents=True, exist_ok=True)
        while True:
            with suppress(FileExistsError), (self.folder / str(self._next())).open("x", encoding="utf-8") as file:
                file.write("\n".join(names))
                return

    def pending(self, name: str) -> bool:
        """Return whether there is a request to stop this run."""
        return not {name, ALL}.isdisjoint(self.requested())

    def requested(self) -> set[str]:
        """Return what was requested to stop."""
        files = (self.folder / str(number) for number in self._numbers() if number >= self.begin)
        return {name for file in files for name in file.read_text(encoding="utf-8").splitlines()}

    def _next(self) -> int:
        return 1 + max(self._numbers(), default=0)

    def _numbers(self) -> list[int]:
        return [int(file.name) for file in self.folder.glob("*") if file.name.isdecimal()]
