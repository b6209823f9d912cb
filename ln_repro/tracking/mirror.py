"""What the runner uses of wandb, the mirror of a run; wandb itself is not imported here.

``events.jsonl`` is the truth. A small process of its own, the *follower*, reads that file as it grows and
repeats it to wandb. Whatever goes wrong there (no network, no key, a full disk, a fault in wandb itself)
costs the mirror and one line of warning, never the training. The follower lives on its standard input: once
the runner closes it, or dies, the follower sends what is left and ends.
"""

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ln_repro.errors import LnReproError
from ln_repro.experiment.settings import Experiment, Tracker
from ln_repro.system import subprocesses
from ln_repro.tracking.files import MirrorFiles, read, write

INIT_SECONDS = 15
UPLOAD_SECONDS = 30
"""How long wandb may go on sending at the end of a run."""
FINISH_SECONDS = 45
CLOSE_SECONDS = 10
"""How long the runner waits for the follower at the end of a run, and after an interrupt."""
SYNC_SECONDS = 600
QUIET = {
    "console": "off", "silent": True, "symlink": False, "disable_git": True, "disable_code": True,
    "save_code": False, "disable_job_creation": True, "x_disable_meta": True, "x_disable_stats": True,
    "x_disable_machine_info": True, "x_save_requirements": False, "host": "", "program": "",
    "init_timeout": INIT_SECONDS, "finish_timeout": UPLOAD_SECONDS, "finish_timeout_raises": True,
}  # fmt: skip
"""wandb's settings: nothing on the terminal, nothing about the machine or the checkout, an end to every wait."""


class Mirror:
    """What the runner tells wandb about. This one tells nobody."""

    def event(self, event: Mapping[str, Any]) -> None:
        """Take note of an event, just appended to ``events.jsonl``."""

    def finish(self, record: Mapping[str, Any], samples: Sequence[tuple[str, str, str]] = ()) -> None:
        """Mirror the record and a few (source, reference, hypothesis) triples; the run is finished."""

    def close(self) -> None:
        """Leave an interrupted run: its events so far are mirrored, and a later mirror goes on from there."""


class FollowedMirror(Mirror):
    """The runner's side of the follower process. No method raises; ``warn`` is called once at most."""

    def __init__(self, files: MirrorFiles, letter: Mapping[str, Any], warn: Callable[[str], None]) -> None:
        """Start the process and hand it its letter: the mode, and what wandb is to know of the run."""
        self._files, self._warn = files, warn
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._process = _start(self._files, letter)
        except OSError as error:
            self._fail(str(error))

    def event(self, event: Mapping[str, Any]) -> None:
        """Warn if the process has ended; the event it reads from the file itself."""
        if self._process and self._process.poll() is not None:
            self.close(0)

    def finish(self, record: Mapping[str, Any], samples: Sequence[tuple[str, str, str]] = ()) -> None:
        """Leave word that the run is finished, for this process or a later sync, and wait for it."""
        try:
            write(self._files.final, {"record": record, "samples": samples})
        except (OSError, TypeError, ValueError) as error:
            self._fail(str(error))
        self.close(FINISH_SECONDS)

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Close the process's input, on which it sends what is left; kill it if that takes too long."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin
        process.stdin.close()
        try:
            if process.wait(seconds):
                self._fail(self._files.last_word())
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            self._fail(f"not everything was sent within {seconds:g} s")
        shutil.rmtree(self._files.scratch, ignore_errors=True)

    def _fail(self, reason: str) -> None:
        """Pass on the first failure, and no other."""
        self._warn(reason)
        self._warn = lambda reason: None


def open_mirror(experiment: Experiment, run_id: str, run_dir: Path, warn: Callable[[str], None]) -> Mirror:
    """Begin to follow a run, or go on with it; takes milliseconds, whatever the network does."""
    mode = _mode(experiment.tracker)
    if mode == "disabled":
        return Mirror()
    with contextlib.suppress(OSError):
        MirrorFiles(run_dir).final.unlink()
    advice = "the run goes on, and `ln-repro sync` mirrors it later"
    letter = _letter(experiment, run_id, mode)
    return FollowedMirror(MirrorFiles(run_dir), letter, lambda reason: warn(f"wandb: no mirror, {reason} ({advice})"))


def sync(experiment: Experiment, run_id: str, run_dir: Path, record: Mapping[str, Any] | None = None) -> str:
    """Replay a run to the server and return what was done, in a few words; twice adds nothing.

    Raises:
        LnReproError: the server may not have everything; the message says why.
    """
    files, failures = MirrorFiles(run_dir), list[str]()
    if record and not files.final.exists():
        files.home.mkdir(parents=True, exist_ok=True)
        write(files.final, {"record": record, "samples": []})
    state = files.state()
    if state == read(files.synced):
        return f"{state['events']} events, mirrored before"
    FollowedMirror(files, _impatient_letter(experiment, run_id), failures.append).close(SYNC_SECONDS)
    if failures:
        raise LnReproError(f"{run_dir.name} was not mirrored to wandb: {failures[0]}")
    return f"{state['events']} events, mirrored now"


@contextlib.contextmanager
def replayed_live(experiment: Experiment, run_id: str, run_dir: Path) -> Iterator[None]:
    """Replay a run to the server while it is at work, beside the copy that it writes offline; a sync is due afterwards.

    Raises:
        LnReproError: the run sends everything itself, or not everything could be sent.
    """
    own, failures = MirrorFiles(run_dir), list[str]()
    if own.busy and any(own.home.glob("run-*")):
        raise LnReproError(f"{run_dir.name} is mirrored to wandb by itself already")
    files = MirrorFiles(run_dir, own.home / "live")
    mirror = FollowedMirror(files, _impatient_letter(experiment, run_id), failures.append)
    try:
        yield
    finally:
        mirror.close(SYNC_SECONDS)
        shutil.rmtree(files.place, ignore_errors=True)
    if failures:
        raise LnReproError(f"{run_dir.name} was not mirrored to wandb while it ran: {failures[0]}")


def _mode(tracker: Tracker) -> str:
    """Return `auto`, `online`, `offline` or `disabled`; WANDB_MODE decides what the settings leave open."""
    if tracker.name == "none":
        return "disabled"
    if tracker.mode != "auto":
        return tracker.mode
    asked = os.environ.get("WANDB_MODE") or "auto"
    return {"dryrun": "offline", "run": "online"}.get(asked, asked)


def _letter(experiment: Experiment, run_id: str, mode: str) -> dict[str, Any]:
    """Return the mode and the arguments of `wandb.init`; paths and the launcher's settings stay at home."""
    axes = experiment.axes
    warm = "warm" if axes["warmup_updates"] else "nowarm"
    tags = [axes[axis] for axis in ("data", "model", "norm", "init", "optimizer", "decay", "precision")]
    config = experiment.model_dump(mode="json", exclude={"data", "tracker", "paths", "rerun"})
    return {"mode": mode, "patient": True, "settings": QUIET, "run": {
        "project": experiment.tracker.project, "id": run_id, "name": f"{experiment.exp}-s{experiment.seed}",
        "group": experiment.exp, "job_type": "train", "tags": list(dict.fromkeys([*tags, warm])),
        "config": {**config, "data": experiment.data.recipe()},
    }}  # fmt: skip


def _impatient_letter(experiment: Experiment, run_id: str) -> dict[str, Any]:
    """Return the letter of a replay to the server: it takes its time to send, and none to wait for another one."""
    letter = _letter(experiment, run_id, "online") | {"patient": False}
    return letter | {"settings": QUIET | {"finish_timeout": SYNC_SECONDS}}


def _start(files: MirrorFiles, letter: Mapping[str, Any]) -> subprocess.Popen[bytes]:
    """Start the follower in a session of its own, out of reach of the terminal's signals."""
    files.home.mkdir(parents=True, exist_ok=True)
    places = {f"WANDB_{name}_DIR": str(files.scratch / name.lower()) for name in ("CACHE", "DATA", "ARTIFACT")}
    with files.log.open("wb") as log:
        process = subprocess.Popen(
            [*subprocesses.SELF, "-m", "ln_repro.tracking.follower", str(files.run_dir), str(files.place)],
            env=subprocesses.environment(**places, WANDB_ERROR_REPORTING="false", WANDB_SILENT="true"),
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True,
        )  # fmt: skip
    assert process.stdin
    process.stdin.write(json.dumps(letter).encode() + b"\n")
    process.stdin.flush()
    return process
