"""Mirror runs to wandb from a separate process, the *follower*; wandb is not imported here.

The follower reads the run directory. If it fails (no network, no key, a full disk, a bug in wandb), the run continues
with a warning. When its standard input is closed, because the command closes it or dies, the follower sends the
remaining events and exits.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from ln_repro.errors import LnReproError
from ln_repro.experiment.settings import Tracker
from ln_repro.records.run_dir import RunFolder
from ln_repro.system import subprocesses
from ln_repro.system.directory_lock import is_locked
from ln_repro.system.files import last_line
from ln_repro.tracking.follower import LOG, contents

UPLOAD_SECONDS = 30
"""Time limit for wandb to send the remaining events at the end of a run."""
FINISH_SECONDS = 45
CLOSE_SECONDS = 10
"""Time that a finished and an interrupted run wait for the follower."""
SYNC_SECONDS = 600
SETTINGS = {
    "CONSOLE": "off", "SILENT": "true", "SYMLINK": "false", "DISABLE_GIT": "true", "DISABLE_CODE": "true",
    "SAVE_CODE": "false", "DISABLE_JOB_CREATION": "true", "ERROR_REPORTING": "false", "_DISABLE_META": "true",
    "_DISABLE_STATS": "true", "_DISABLE_MACHINE_INFO": "true", "_SAVE_REQUIREMENTS": "false", "HOST": "", "PROGRAM": "",
    "INIT_TIMEOUT": "15", "FINISH_TIMEOUT_RAISES": "true",
}  # fmt: skip
"""wandb's settings, as environment variables: no output, nothing about the machine or the code, limited waiting."""
OF_AGENT = ("WANDB_RUN_ID", "WANDB_SWEEP_ID", "WANDB_SWEEP_PARAM_PATH", "WANDB_LAUNCH")
"""Variables of an agent of wandb, which would move every run of a command to the agent's page."""


class Follower:
    """The follower process of a run. Its methods do not raise exceptions.

    Args:
        run_dir: a run directory with `experiment.json`.
        place: the folder for wandb's own files.
        mode: see `ln_repro.tracking.follower.main`.
        warn: called once with the reason if mirroring fails.
    """

    def __init__(self, run_dir: Path, place: Path, mode: str, warn: Callable[[str], None]) -> None:
        self._log, self._scratch, self._warn = place / LOG, place / "wandb" / "scratch", warn
        self._process: subprocess.Popen[bytes] | None = None
        folders = {f"{name}_DIR": str(self._scratch / name.lower()) for name in ("CACHE", "DATA", "ARTIFACT")}
        upload = {"FINISH_TIMEOUT": str(SYNC_SECONDS if mode == "sync" else UPLOAD_SECONDS)}
        settings = {f"WANDB_{name}": value for name, value in {**folders, **upload, **SETTINGS}.items()}
        environment = subprocesses.environment(**settings)
        for name in OF_AGENT:
            environment.pop(name, None)
        try:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            with self._log.open("ab") as log:
                self._begin = log.tell()
                self._process = subprocess.Popen(
                    [*subprocesses.SELF, "-m", "ln_repro.tracking.follower", str(run_dir), str(place), mode],
                    env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=log,
                    start_new_session=True,  # out of reach of the terminal's signals
                )  # fmt: skip
        except OSError as error:
            warn(str(error))

    def check(self) -> None:
        """Warn if the process has ended."""
        if self._process and self._process.poll() is not None:
            self.close(0)

    def close(self, seconds: float) -> None:
        """Let the process send the remaining events; kill it if that takes longer than ``seconds``."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin
        process.stdin.close()
        try:
            if process.wait(seconds):
                self._warn(last_line(self._log, self._begin)[:300] or "its process was killed")
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            self._warn(f"not everything was sent within {seconds:g} s")
        shutil.rmtree(self._scratch, ignore_errors=True)


@contextlib.contextmanager
def mirrored(tracker: Tracker, run_dir: Path, warn: Callable[[str], None]) -> Iterator[Callable[[], None]]:
    """Mirror a run for the duration of the block; starting does not wait for the network.

    Yields:
        A function that warns if mirroring has failed in the meantime.
    """
    if (mode := mode_of(tracker)) == "disabled":
        yield lambda: None
        return
    advice = "the run continues; `ln-repro sync` uploads it later"
    follower = Follower(run_dir, run_dir, mode, lambda reason: warn(f"wandb: not mirrored: {reason} ({advice})"))
    try:
        yield follower.check
    except BaseException:
        follower.close(CLOSE_SECONDS)
        raise
    follower.close(FINISH_SECONDS)


def sync(run_dir: Path) -> str:
    """Send a run to the server and return a short description of the result; sending it again adds nothing.

    Raises:
        LnReproError: sending failed, for the reason in the message.
    """
    everything = contents(RunFolder(run_dir))
    number = everything.partition(" ")[0]
    if last_line(run_dir / LOG) == everything:
        return f"{number} events, already uploaded"
    failures = list[str]()
    Follower(run_dir, run_dir, "sync", failures.append).close(SYNC_SECONDS)
    if failures:
        raise LnReproError(f"{run_dir.name} was not mirrored to wandb: {failures[0]}")
    return f"{number} events, uploaded"


@contextlib.contextmanager
def replayed_live(run_dir: Path) -> Iterator[Callable[[], bool]]:
    """Send a run that is mirrored offline to the server for the duration of the block; `sync` must follow.

    Yields:
        A function that returns whether it is still being sent.

    Raises:
        LnReproError: its own command mirrors the run online, or sending failed.
    """
    if is_locked(run_dir / LOG) and any((run_dir / "wandb").glob("run-*")):
        raise LnReproError(f"{run_dir.name} is already mirrored to wandb by its own command")
    place, failures = run_dir / "wandb" / "live", list[str]()
    follower = Follower(run_dir, place, "sync", failures.append)

    def sending() -> bool:
        follower.check()
        return not failures

    try:
        yield sending
    finally:
        follower.close(SYNC_SECONDS)
        shutil.rmtree(place, ignore_errors=True)
    if failures:
        raise LnReproError(f"{run_dir.name} was not mirrored to wandb while it ran: {failures[0]}")


def mode_of(tracker: Tracker) -> str:
    """Return `auto`, `online`, `offline` or `disabled`; WANDB_MODE applies if the setting is `auto`."""
    if tracker.name == "none":
        return "disabled"
    if tracker.mode != "auto":
        return tracker.mode
    mode = os.environ.get("WANDB_MODE") or "auto"
    return {"dryrun": "offline", "run": "online"}.get(mode, mode)
