"""One run of a sweep: an `ln-repro run` in a session of its own, its output in a log."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from ln_repro.errors import Interrupted, UserError
from ln_repro.system import subprocesses

STOP_SECONDS = 90.0
"""How long a run may take to save: longer than it gives its own workers."""


def start(file: Path, log: Path, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start the run that is queued in ``file``; append its output to ``log``. Our signals do not reach it."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            [*subprocesses.SELF, "-m", "ln_repro.cli", "run", f"--queued={file}"],
            env=subprocesses.environment(**(environment or {})),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def worth_retrying(status: int) -> bool:
    """Return whether a run that ended with this exit code may succeed when it is tried again.

    It is not tried again after divergence (a result, with exit code 0), invalid input, or a request to stop.
    """
    return status not in (0, UserError.exit_code, Interrupted.exit_code)


def reason(status: int, log: Path) -> str:
    """Return in one line why a run ended without a record: the signal that killed it, or its last line of output."""
    if status < 0:
        return subprocesses.killed(status)
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    said = next((line.strip() for line in reversed(lines) if line.strip()), "no output")
    return said.removeprefix("ln-repro: ")
