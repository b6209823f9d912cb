"""wandb, the mirror of a run. The only room that knows it.

``events.jsonl`` is the truth. A small process of its own, the *follower*, reads that file as it grows and
repeats it to wandb. Whatever goes wrong there (no network, no key, a full disk, a fault in wandb itself)
costs the mirror and one line of warning, never the training. The follower lives on its standard input: once
the runner closes it, or dies, the follower sends what is left and ends.

An event's line number is its step in wandb, and wandb itself is asked how far a run came. So a run may be
interrupted, resumed and replayed as often as one likes: no row is lost, and none arrives twice.
"""

import contextlib
import fcntl
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from ln_repro.errors import LnReproError
from ln_repro.experiment import Experiment, Tracker

POLL_SECONDS = 1.0
INIT_SECONDS = 15
UPLOAD_SECONDS = 30
"""How long wandb may go on sending at the end of a run."""
FINISH_SECONDS = 45
CLOSE_SECONDS = 10
"""How long the runner waits for the follower at the end of a run, and after an interrupt."""
SYNC_SECONDS = 600
SECRETS = {"key", "apikey", "token", "secret", "password", "passwd", "credential", "credentials"}
QUIET = {
    "console": "off", "silent": True, "symlink": False, "disable_git": True, "disable_code": True,
    "save_code": False, "disable_job_creation": True, "x_disable_meta": True, "x_disable_stats": True,
    "x_disable_machine_info": True, "x_save_requirements": False, "host": "", "program": "",
    "init_timeout": INIT_SECONDS, "finish_timeout": UPLOAD_SECONDS, "finish_timeout_raises": True,
}  # fmt: skip
"""Nothing on the terminal, nothing about the machine or the checkout, an end to every wait."""


class Mirror:
    """What the runner tells wandb about. This one tells nobody."""

    def event(self, event: Mapping[str, Any]) -> None:
        """Take note of an event, just appended to ``events.jsonl``."""

    def finish(self, record: Mapping[str, Any], samples: Sequence[tuple[str, str, str]] = ()) -> None:
        """Mirror the record and a few (source, reference, hypothesis) triples; the run is finished."""

    def close(self) -> None:
        """Leave an interrupted run: its events so far are mirrored, and a later mirror goes on from there."""


class Follower(Mirror):
    """The runner's side of the follower process. No method raises; ``warn`` is called once at most."""

    def __init__(self, run_dir: Path, letter: Mapping[str, Any], warn: Callable[[str], None]) -> None:
        """Start the process and hand it its letter: the mode, and what wandb is to know of the run."""
        self._home, self._warn = run_dir / "wandb", warn
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._home.mkdir(parents=True, exist_ok=True)
            self._process = _start(run_dir, letter)
        except OSError as error:
            self._fail(str(error))

    def event(self, event: Mapping[str, Any]) -> None:
        """Warn if the process has ended; the event it reads from the file itself."""
        if self._process and self._process.poll() is not None:
            self.close(0)

    def finish(self, record: Mapping[str, Any], samples: Sequence[tuple[str, str, str]] = ()) -> None:
        """Leave word that the run is finished, for this process or a later sync, and wait for it."""
        try:
            _write(self._home / "final.json", {"record": record, "samples": samples})
        except (OSError, TypeError, ValueError) as error:
            self._fail(str(error))
        self.close(FINISH_SECONDS)

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Close the process's input, on which it sends what is left; kill it if that takes too long."""
        if not (process := self._process):
            return
        self._process = None
        assert process.stdin
        process.stdin.close()
        try:
            if process.wait(seconds):
                self._fail(_last_line(self._home / "follower.log"))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            self._fail(f"not everything was sent within {seconds:g} s")
        shutil.rmtree(self._home / "scratch", ignore_errors=True)

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
        (run_dir / "wandb" / "final.json").unlink()
    advice = "the run goes on, and `ln-repro sync` mirrors it later"
    letter = _letter(experiment, run_id, mode)
    return Follower(run_dir, letter, lambda reason: warn(f"wandb: no mirror, {reason} ({advice})"))


def sync(experiment: Experiment, run_id: str, run_dir: Path, record: Mapping[str, Any] | None = None) -> str:
    """Replay a run to the server and return what was done, in a few words; twice adds nothing.

    Raises:
        LnReproError: the server may not have everything; the message says why.
    """
    home, failures = run_dir / "wandb", list[str]()
    if record and not (home / "final.json").exists():
        home.mkdir(parents=True, exist_ok=True)
        _write(home / "final.json", {"record": record, "samples": []})
    state = _state(run_dir)
    if state == _read(home / "synced.json"):
        return f"{state['events']} events, mirrored before"
    letter = _letter(experiment, run_id, "online") | {"patient": False}
    letter["settings"] = QUIET | {"finish_timeout": SYNC_SECONDS}
    Follower(run_dir, letter, failures.append).close(SYNC_SECONDS)
    if failures:
        raise LnReproError(f"{run_dir.name} was not mirrored to wandb: {failures[0]}")
    return f"{state['events']} events, mirrored now"


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


def _start(run_dir: Path, letter: Mapping[str, Any]) -> subprocess.Popen[bytes]:
    """Start the follower in a session of its own, out of reach of the terminal's signals."""
    scratch, package = run_dir / "wandb" / "scratch", Path(__file__).resolve().parent.parent
    places = {f"WANDB_{name}_DIR": str(scratch / name.lower()) for name in ("CACHE", "DATA", "ARTIFACT")}
    code = "import sys; sys.path.append(sys.argv[1]); import ln_repro.tracking as it; it.main(sys.argv[2])"
    with (run_dir / "wandb" / "follower.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", code, str(package), str(run_dir)],
            env={**os.environ, **places, "WANDB_ERROR_REPORTING": "false", "WANDB_SILENT": "true"},
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True,
        )  # fmt: skip
    assert process.stdin
    process.stdin.write(json.dumps(letter).encode() + b"\n")
    process.stdin.flush()
    return process


# What follows runs in the follower process.


def main(run_dir: str) -> None:
    """Follow a run until the runner has left; exit with 1 and a last line that says what went wrong."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"):  # the runner decides, by leaving
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    try:
        letter = json.loads(sys.stdin.buffer.readline())
        with _only_one(Path(run_dir), patient=letter["patient"]):
            _mirror(Path(run_dir), letter)
    except BaseException as error:
        traceback.print_exc()
        print(type(error).__name__, *str(error).split(), file=sys.stderr, flush=True)
        os._exit(1)  # at a normal exit wandb would wait once more for what has just failed


@contextlib.contextmanager
def _only_one(run_dir: Path, patient: bool) -> Iterator[None]:
    """Hold the run's lock: a killed runner's follower may still be sending when the next one starts."""
    with (run_dir / "wandb" / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if patient else fcntl.LOCK_NB))
        except BlockingIOError:
            raise RuntimeError("the run is being mirrored by another process") from None
        yield


def _mirror(run_dir: Path, letter: Mapping[str, Any]) -> None:
    """Repeat events to wandb as they come, then the end of the story, if it has one."""
    home = run_dir / "wandb"
    run = _open_run(run_dir, letter)
    sent = _read(home / "synced.json")
    known = sent["events"] if sent.get("server") == _server() and not run.offline else 0
    for step, values in enumerate(rows(tail(run_dir / "events.jsonl", _runner_left))):
        if values and step >= max(known, run.starting_step):
            run.log(values, step=step, commit=True)
    if final := _read(home / "final.json"):
        _finish(run, final["record"], final["samples"])
    state = _state(run_dir)
    run.finish(exit_code=0 if final else 1)
    if not run.offline:
        _write(home / "synced.json", state)


def _open_run(run_dir: Path, letter: Mapping[str, Any]) -> Any:
    """Open the run in wandb, and drop its earlier local copies: each one is refilled from the first event."""
    import wandb

    _refuse_secrets(letter["run"]["config"])
    mode = letter["mode"]
    if mode == "auto":
        mode = "online" if _key_configured() else "offline"
    understood = wandb.Settings.model_fields
    quiet = wandb.Settings(**{key: value for key, value in letter["settings"].items() if key in understood})
    run = wandb.init(**letter["run"], mode=mode, resume="allow", dir=str(run_dir), settings=quiet)
    for copy in (run_dir / "wandb").glob("*run-*"):
        if copy.name != Path(run.dir).parent.name:
            shutil.rmtree(copy)
    run.define_metric("update")
    run.define_metric("*", step_metric="update")
    return run


def _key_configured() -> bool:
    """Ask wandb whether it has a key for its server, from the environment, netrc or its own settings."""
    import wandb

    try:
        return bool(wandb.login(prompt=False))
    except TypeError:  # before `prompt` existed
        return bool(wandb.api.api_key)


def _refuse_secrets(config: Mapping[str, Any]) -> None:
    """Raise ValueError for a setting that is named like a secret (`max_tokens` is not)."""
    for key in re.findall(r'"(\w+)":', json.dumps(config)):
        if SECRETS & set(key.lower().split("_")):
            raise ValueError(f"the setting {key!r} is named like a secret, and is not sent")


def _runner_left() -> bool:
    """Wait a moment for the end of standard input, which is the runner's leaving."""
    return bool(select.select([sys.stdin], [], [], POLL_SECONDS)[0])


def tail(path: Path, ended: Callable[[], bool]) -> Iterator[bytes]:
    """Yield the complete lines of a growing file until ``ended``, and what was written by then."""
    rest, position, last = b"", 0, False
    while not last:
        last = ended()  # asked before reading: whatever was written before the end is then still read
        if path.exists():
            with path.open("rb") as file:
                file.seek(position)
                rest += file.read()
                position = file.tell()
        *lines, rest = rest.split(b"\n")
        yield from lines


def rows(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield what is logged for each line: nothing if it is torn, or was written before a resume already."""
    seen = set()
    for line in lines:
        try:
            event = json.loads(line)
            what = tuple(event.get(part) for part in ("kind", "update", "epoch", "name", "split", "flavour"))
            values = {} if what in seen else row(event)
            seen.add(what)
        except (ValueError, TypeError, KeyError, AttributeError):
            values = {}
        yield values


def row(event: Mapping[str, Any]) -> dict[str, Any]:
    """Name an event's numbers as wandb shows them: `train/loss`, `bleu/test`, `probe/NAME/...`."""
    match event["kind"]:
        case "bleu":
            name = "_".join(filter(None, ["bleu/" + event["split"], event.get("flavour")]))
            found = {name: event["score"], f"{name}_signature": event["signature"]}
        case "probe":
            found = dict(_numbers(f"probe/{event['name']}", event["values"]))
        case kind:
            fields = {key: value for key, value in event.items() if key not in ("update", "epoch")}
            found = dict(_numbers(kind, fields))
    if found:
        found |= {"update": event["update"], "epoch": event["epoch"]}
        found["_timestamp"] = datetime.fromisoformat(event["time"]).timestamp()
    return found


def _numbers(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """Yield the numbers in a nested value, each with its path as name."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield name, value
    elif isinstance(value, Mapping | list):
        for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _numbers(f"{name}/{key}", item)


def _finish(run: Any, record: Mapping[str, Any], samples: Sequence[Sequence[str]]) -> None:
    """Put the record's results, and the samples as a table, into the run's summary."""
    import wandb

    run.summary.update({key: value for key, value in record.items() if isinstance(value, str | int | float)})
    for name, result in (record.get("bleu") or {}).items():
        run.summary.update({f"bleu/{name}": result["score"], f"bleu/{name}_signature": result["signature"]})
    run.summary.update(dict(_numbers("divergence", record.get("divergence"))))
    if samples:
        run.summary["samples"] = wandb.Table(columns=["source", "reference", "hypothesis"], data=samples)


# Small files, on both sides.


def _server() -> str:
    """Name the server and the account that the environment points at (neither is a secret)."""
    return "/".join(os.environ.get(name, "") for name in ("WANDB_BASE_URL", "WANDB_ENTITY"))


def _state(run_dir: Path) -> dict[str, Any]:
    """Return what a complete mirror of the run holds at this moment."""
    events = run_dir / "events.jsonl"
    count = events.read_bytes().count(b"\n") if events.exists() else 0
    return {"server": _server(), "events": count, "finished": (run_dir / "wandb" / "final.json").exists()}


def _read(path: Path) -> dict[str, Any]:
    """Return a small JSON file's content; nothing if it is missing or torn."""
    try:
        return dict(json.loads(path.read_bytes()))
    except (OSError, ValueError):
        return {}


def _write(path: Path, value: Mapping[str, Any]) -> None:
    """Write a small JSON file whole or not at all."""
    partial = path.with_suffix(".tmp")
    partial.write_text(json.dumps(value))
    partial.replace(path)


def _last_line(path: Path) -> str:
    """Return the follower's last word."""
    try:
        lines = path.read_text(errors="replace").split("\n")
    except OSError as error:
        return str(error)
    return next(filter(None, reversed(lines)), "its process was killed")[:300]
