"""The follower, the only place that knows wandb: `python -m ln_repro.tracking.follower RUN PLACE`.

An event's place in ``events.jsonl`` is its step in wandb, and wandb itself is asked how far a run came. So a
run may be interrupted, resumed and replayed as often as one likes: no row is lost, and none arrives twice.
"""

import contextlib
import fcntl
import json
import os
import re
import select
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from ln_repro.records.events import Event, Events
from ln_repro.tracking.files import MirrorFiles, read, write

POLL_SECONDS = 1.0
IDENTITY = ("kind", "update", "epoch", "name", "split", "flavour")
"""What tells two events apart; a resumed trainer writes some of them a second time."""
SECRETS = {"key", "apikey", "token", "secret", "password", "passwd", "credential", "credentials"}


def main(run_dir: Path, place: Path) -> None:
    """Follow a run until the runner has left, with files in ``place``; exit with 1 and a last line that says why."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"):  # the runner decides, by leaving
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    try:
        letter = json.loads(sys.stdin.buffer.readline())
        files = MirrorFiles(run_dir, place)
        with _only_one(files, patient=letter["patient"]):
            _mirror(files, letter)
    except BaseException as error:
        traceback.print_exc()
        print(type(error).__name__, *str(error).split(), file=sys.stderr, flush=True)
        os._exit(1)  # at a normal exit wandb would wait once more for what has just failed


@contextlib.contextmanager
def _only_one(files: MirrorFiles, patient: bool) -> Iterator[None]:
    """Hold the run's lock: a killed runner's follower may still be sending when the next one starts."""
    with files.lock.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if patient else fcntl.LOCK_NB))
        except BlockingIOError:
            raise RuntimeError("the run is being mirrored by another process") from None
        yield


def _mirror(files: MirrorFiles, letter: Mapping[str, Any]) -> None:
    """Repeat events to wandb as they come, then the end of the story, if it has one."""
    run = _open_run(files, letter)
    for step, values in enumerate(rows(until(files.events, _runner_left))):
        if values and step >= run.starting_step:
            run.log(values, step=step, commit=True)
    if final := read(files.final):
        _finish(run, final["record"], final["samples"])
    state = files.state()
    run.finish(exit_code=0 if final else 1)
    if not run.offline:
        write(files.synced, state)


def _open_run(files: MirrorFiles, letter: Mapping[str, Any]) -> Any:
    """Open the run in wandb, and drop its earlier local copies: each one is refilled from the first event."""
    import wandb

    refuse_secrets(letter["run"]["config"])
    mode = letter["mode"]
    if mode == "auto":
        mode = "online" if _key_configured() else "offline"
    understood = wandb.Settings.model_fields
    quiet = wandb.Settings(**{key: value for key, value in letter["settings"].items() if key in understood})
    run = wandb.init(**letter["run"], mode=mode, resume="allow", dir=str(files.place), settings=quiet)
    for copy in files.home.glob("*run-*"):
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


def refuse_secrets(config: Mapping[str, Any]) -> None:
    """Raise ValueError for a setting that is named like a secret (`max_tokens` is not)."""
    for key in re.findall(r'"(\w+)":', json.dumps(config)):
        if SECRETS & set(key.lower().split("_")):
            raise ValueError(f"the setting {key!r} is named like a secret, and is not sent")


def _runner_left() -> bool:
    """Wait a moment for the end of standard input, which is the runner's leaving."""
    return bool(select.select([sys.stdin], [], [], POLL_SECONDS)[0])


def until(events: Events, ended: Callable[[], bool]) -> Iterator[Event]:
    """Yield the events of a growing file until ``ended``, and what was written by then."""
    reader, last = events.follow(), False
    while not last:
        last = ended()  # asked before reading: whatever was written before the end is then still read
        yield from reader.new()


def rows(events: Iterable[Event]) -> Iterator[dict[str, Any]]:
    """Yield what is logged for each event: nothing if a trainer wrote it before it was interrupted already."""
    seen = set()
    for event in events:
        what = tuple(event.get(part) for part in IDENTITY)
        yield {} if what in seen else row(event)
        seen.add(what)


def row(event: Mapping[str, Any]) -> dict[str, Any]:
    """Name an event's numbers as wandb shows them: `train/loss`, `bleu/test`, `probe/NAME/...`."""
    match event["kind"]:
        case "status":  # no measurement; what a status says of the whole run, the record says too
            return {}
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
        if result:
            run.summary.update({f"bleu/{name}": result["score"], f"bleu/{name}_signature": result["signature"]})
    run.summary.update(dict(_numbers("divergence", record.get("divergence"))))
    if samples:
        run.summary["samples"] = wandb.Table(columns=["source", "reference", "hypothesis"], data=samples)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
