"""Start the runs of a sweep as `ln-repro run` processes, each in its own session and with a log."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from ln_repro.errors import Interrupted, UserError
from ln_repro.system import subprocesses
from ln_repro.system.files import last_line

STOP_SECONDS = 90.0
"""Time limit for a run to save its state; longer than the limit for its own workers."""


def start(file: Path, log: Path, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start the run that is queued in ``file`` and append its output to ``log``; it does not receive our signals."""
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
    """Return whether a retry may help after this exit code.

    It does not after divergence (a result, with exit code 0), invalid input, or a request to stop.
    """
    return status not in (0, UserError.exit_code, Interrupted.exit_code)


def reason(status: int, log: Path) -> str:
    """Return why a run ended without a record, in one line: the signal that killed it, or its last line of output."""
    if status < 0:
        return subprocesses.killed(status)
    return (last_line(log) or "no output").removeprefix("ln-repro: ")
