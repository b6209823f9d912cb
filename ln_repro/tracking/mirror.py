"""Mirror runs on wandb from a process of its own, the *follower*; wandb is not imported here.

The follower reads the run directory. Whatever fails there (no network, no key, a full disk, a bug in wandb) costs the
mirror and one warning, never the training. Once its standard input is closed, by the command or by its death, the
follower sends what is left and ends.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from ln_repro.errors import LnReproError
from ln_repro.experiment.settings import Tracker
from ln_repro.records.run_dir import RunFolder
from ln_repro.system import subprocesses
from ln_repro.tracking.follower import LOG, contents

UPLOAD_SECONDS = 30
"""How long wandb may take to send what is left at the end of a run."""
FINISH_SECONDS = 45
CLOSE_SECONDS = 10
"""How long a run waits for the follower when it is finished, and when it is interrupted."""
SYNC_SECONDS = 600
SETTINGS = {
    "CONSOLE": "off", "SILENT": "true", "SYMLINK": "false", "DISABLE_GIT": "true", "DISABLE_CODE": "true",
    "SAVE_CODE": "false", "DISABLE_JOB_CREATION": "true", "ERROR_REPORTING": "false", "_DISABLE_META": "true",
    "_DISABLE_STATS": "true", "_DISABLE_MACHINE_INFO": "true", "_SAVE_REQUIREMENTS": "false", "HOST": "", "PROGRAM": "",
    "INIT_TIMEOUT": "15", "FINISH_TIMEOUT_RAISES": "true",
}  # fmt: skip
"""Of wandb, as it takes them from the environment: silent, nothing about the machine or the code, no endless wait."""


class Follower:
    """The follower process of a run. No method raises; ``warn`` is called once at most.

    Args:
        run_dir: a run directory with `experiment.json`.
        place: where wandb writes its own files.
        mode: as `ln_repro.tracking.follower` takes it.
        warn: told the reason if the mirror fails.
    """

    def __init__(self, run_dir: Path, place: Path, mode: str, warn: Callable[[str], None]) -> None:
        self._log, self._scratch, self._warn = place / LOG, place / "wandb" / "scratch", warn
        self._process: subprocess.Popen[bytes] | None = None
        folders = {f"{name}_DIR": str(self._scratch / name.lower()) for name in ("CACHE", "DATA", "ARTIFACT")}
        upload = {"FINISH_TIMEOUT": str(SYNC_SECONDS if mode == "sync" else UPLOAD_SECONDS)}
        settings = {f"WANDB_{name}": value for name, value in {**folders, **upload, **SETTINGS}.items()}
        try:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            with self._log.open("ab") as log:
                self._begin = log.tell()
                self._process = subprocess.Popen(
                    [*subprocesses.SELF, "-m", "ln_repro.tracking.follower", str(run_dir), str(place), mode],
                    env=subprocesses.environment(**settings), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                    stderr=log, start_new_session=True,  # out of reach of the terminal's signals
                )  # fmt: skip
        except OSError as error:
            self._fail(str(error))

    def check(self) -> None:
        """Warn if the process has ended."""
        if self._process and self._process.poll() is not None:
            self.close(0)

    def close(self, seconds: float) -> None:
        """Let the process send what is left, and kill it if that takes longer than ``seconds``."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin
        process.stdin.close()
        try:
            if process.wait(seconds):
                self._fail(last_line(self._log, self._begin)[:300] or "its process was killed")
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            self._fail(f"not everything was sent within {seconds:g} s")
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _fail(self, reason: str) -> None:
        self._warn(reason)
        self._warn = lambda reason: None


@contextlib.contextmanager
def mirrored(tracker: Tracker, run_dir: Path, warn: Callable[[str], None]) -> Iterator[Callable[[], None]]:
    """Mirror a run while the block lasts; starting takes milliseconds, whatever the network does.

    Yields a function that warns if the mirror has failed meanwhile.
    """
    if (mode := mode_of(tracker)) == "disabled":
        yield lambda: None
        return
    advice = "the run continues; `ln-repro sync` sends it later"
    follower = Follower(run_dir, run_dir, mode, lambda reason: warn(f"wandb: no mirror, {reason} ({advice})"))
    try:
        yield follower.check
    except BaseException:
        follower.close(CLOSE_SECONDS)
        raise
    follower.close(FINISH_SECONDS)


def sync(run_dir: Path) -> str:
    """Send a run to the server and return what was done, in a few words; a second time nothing is added.

    Raises:
        LnReproError: the server may not have everything; the message says why.
    """
    everything = contents(RunFolder(run_dir))
    number = everything.partition(" ")[0]
    if last_line(run_dir / LOG) == everything:
        return f"{number} events, mirrored before"
    failures = list[str]()
    Follower(run_dir, run_dir, "sync", failures.append).close(SYNC_SECONDS)
    if failures:
        raise LnReproError(f"{run_dir.name} was not mirrored to wandb: {failures[0]}")
    return f"{number} events, mirrored now"


@contextlib.contextmanager
def replayed_live(run_dir: Path) -> Iterator[None]:
    """Send an offline run to the server while the block lasts, apart from its own copy; a sync is due afterwards.

    Raises:
        LnReproError: the run is mirrored online by its own command, or not everything could be sent.
    """
    if locked(run_dir / LOG) and any((run_dir / "wandb").glob("run-*")):
        raise LnReproError(f"{run_dir.name} is already mirrored to wandb by its own command")
    place, failures = run_dir / "wandb" / "live", list[str]()
    follower = Follower(run_dir, place, "sync", failures.append)
    try:
        yield
    finally:
        follower.close(SYNC_SECONDS)
        shutil.rmtree(place, ignore_errors=True)
    if failures:
        raise LnReproError(f"{run_dir.name} was not mirrored to wandb while it ran: {failures[0]}")


def mode_of(tracker: Tracker) -> str:
    """Return `auto`, `online`, `offline` or `disabled`; WANDB_MODE decides what the settings leave open."""
    if tracker.name == "none":
        return "disabled"
    if tracker.mode != "auto":
        return tracker.mode
    asked = os.environ.get("WANDB_MODE") or "auto"
    return {"dryrun": "offline", "run": "online"}.get(asked, asked)


def last_line(log: Path, begin: int = 0) -> str:
    """Return the last line of a log that was written after byte ``begin``; an empty one if there is none."""
    try:
        lines = log.read_bytes()[begin:].decode(errors="replace").split("\n")
    except OSError:
        return ""
    return next(filter(None, reversed(lines)), "")


def locked(path: Path) -> bool:
    """Return whether a process holds a lock on a file."""
    try:
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False
