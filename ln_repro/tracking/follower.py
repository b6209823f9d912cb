"""Send a run to wandb while it is running: ``python -m ln_repro.tracking.follower RUN PLACE MODE``.

The position of an event in ``events.jsonl`` is its step in wandb, which knows how many steps it has received. A run can
therefore be interrupted, resumed and sent again without lost or duplicate rows.
"""

import fcntl
import glob
import os
import select
import shutil
import signal
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ln_repro.errors import LnReproError
from ln_repro.experiment.settings import Experiment, build
from ln_repro.records.events import Event, Events
from ln_repro.records.run_dir import RunFolder
from ln_repro.system.files import read_json, write_atomically
from ln_repro.system.signals import STOPPING, WARNINGS

POLL_SECONDS = 1.0
LOG = Path("wandb") / "follower.log"
"""Log file of the follower, below PLACE; it is locked, so that only one follower sends at a time."""
SAMPLES = "samples.json"
"""File in the run directory with (source, reference, hypothesis) of some test sentences."""
IDENTITY = ("kind", "update", "epoch", "name", "split", "flavour")
"""The fields that identify an event; a resumed trainer writes some events again."""


def main(run_dir: Path, place: Path, mode: str) -> None:
    """Mirror a run until standard input is closed. On failure, print the reason as the last line and exit with 1.

    ``place`` is for wandb's own files; ``mode`` is ``online``, ``offline``, ``auto`` (online if there is a key), or
    ``sync`` (online, but fails if another process mirrors the run).
    """
    for number in (*STOPPING, *WARNINGS):  # the command decides when this process ends
        signal.signal(number, signal.SIG_IGN)
    try:
        with (place / LOG).open("a") as lock:
            try:  # the follower of a killed command may still be sending when the next one starts
                fcntl.flock(lock, fcntl.LOCK_EX | (fcntl.LOCK_NB if mode == "sync" else 0))
            except BlockingIOError:
                raise LnReproError("the run is being mirrored by another process") from None
            _mirror(RunFolder(run_dir), place, "online" if mode == "sync" else mode)
    except BaseException as error:
        traceback.print_exc()
        print(type(error).__name__, *str(error).split(), file=sys.stderr, flush=True)
        os._exit(1)  # a normal exit would make wandb wait once more for the failed upload


def _mirror(folder: RunFolder, place: Path, mode: str) -> None:
    """Send each event as soon as it is written, then the record if the run has finished."""
    run = _open_run(folder, place, mode)
    for step, values in enumerate(rows(_followed(folder.events))):
        if values and step >= run.starting_step:
            run.log(values, step=step, commit=True)
    sent = contents(folder)
    if record := folder.record:
        _finish(run, record, read_json(folder.path / SAMPLES, list))
    run.finish(exit_code=0 if record else 1)
    print(f"offline: {sent}" if run.offline else sent, file=sys.stderr, flush=True)


def contents(folder: RunFolder) -> str:
    """Describe the content to send and the server; this is the last line of the log when everything has been sent."""
    server = "/".join(filter(None, map(os.environ.get, ("WANDB_BASE_URL", "WANDB_ENTITY")))) or "wandb"
    record = " and the record" if folder.record else ""
    return f"{sum(1 for _ in folder.events.new())} events{record} are on {server}"


def _open_run(folder: RunFolder, place: Path, mode: str) -> Any:
    """Open the run in wandb and delete earlier local copies, since each copy contains all events."""
    import wandb

    settings = folder.experiment
    assert settings
    run_id = _page(folder, settings.pop("id"))
    if mode == "auto":
        mode = "online" if key_configured() else "offline"
    given = arguments(build(settings), run_id) | {"mode": mode, "resume": "allow", "dir": str(place)}
    run = wandb.init(**given)
    for copy in (place / "wandb").glob("*run-*"):
        if copy.name != Path(run.dir).parent.name:
            shutil.rmtree(copy)
    run.define_metric("update")
    run.define_metric("*", step_metric="update")
    return run


def _page(folder: RunFolder, run_id: str) -> str:
    """Return the run's id in wandb, chosen when it is first mirrored; a run after `rerun=true` has one of its own.

    wandb ignores rows with the numbers of those that it has.
    """
    file = folder.path / "wandb" / "id"
    if not file.exists():
        earlier = len([*folder.path.parent.glob(f"{glob.escape(folder.path.name)}.old*")])
        file.parent.mkdir(exist_ok=True)
        write_atomically(file, f"{run_id}-{earlier + 1}" if earlier else run_id)
    return file.read_text()


def key_configured() -> bool:
    """Return whether wandb finds a key for its server in the environment, netrc or its own settings."""
    import wandb

    try:
        return bool(wandb.login(prompt=False, verify=False))  # without asking the server, which may not respond
    except TypeError:  # older releases have no `prompt`
        return bool(wandb.api.api_key)


def arguments(experiment: Experiment, run_id: str) -> dict[str, Any]:
    """Return the description of the run for wandb, without paths."""
    axes = experiment.axes
    warm = "warm" if axes["warmup_updates"] else "nowarm"
    tags = [axes[axis] for axis in ("data", "model", "norm", "init", "optimizer", "decay", "precision")]
    return {
        "project": experiment.tracker.project, "id": run_id, "name": f"{experiment.exp}-s{experiment.seed}",
        "group": experiment.exp, "job_type": "train", "tags": list(dict.fromkeys([*tags, warm])),
        "config": experiment.settings(),
    }  # fmt: skip


def _followed(events: Events) -> Iterator[Event]:
    """Yield the events of a growing file until the command closes standard input, with those written until then."""
    ended = False
    while not ended:
        ended = bool(select.select([sys.stdin], [], [], POLL_SECONDS)[0])  # checked before the last events are read
        yield from events.new()


def rows(events: Iterable[Event]) -> Iterator[dict[str, Any]]:
    """Yield the row to log for each event; it is empty for an event that a resumed run has written again."""
    seen = set()
    for event in events:
        identity = tuple(event.get(part) for part in IDENTITY)
        yield {} if identity in seen else row(event)
        seen.add(identity)


def row(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of an event with names that wandb groups: `train/loss`, `bleu/test`, `probe/NAME/...`."""
    match event["kind"]:
        case "status":  # not a measurement; the record contains its information
            return {}
        case "bleu":
            name = "_".join(filter(None, ["bleu/" + event["split"], event.get("flavour")]))
            values = {name: event["score"], f"{name}_signature": event["signature"]}
        case "probe":
            values = dict(_numbers(f"probe/{event['name']}", event["values"]))
        case kind:
            fields = {key: value for key, value in event.items() if key not in ("update", "epoch")}
            values = dict(_numbers(kind, fields))
    if values:
        values |= {"update": event["update"], "epoch": event["epoch"]}
        values["_timestamp"] = datetime.fromisoformat(event["time"]).timestamp()
    return values


def _numbers(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """Yield the numbers in a nested value, with their paths as names."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield name, value
    elif isinstance(value, Mapping | list):
        for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _numbers(f"{name}/{key}", item)


def _finish(run: Any, record: Mapping[str, Any], samples: list[list[str]] | None) -> None:
    """Write the results of the record, and the samples as a table, to the summary of the run."""
    import wandb

    run.summary.update({key: value for key, value in record.items() if isinstance(value, str | int | float)})
    for name, result in (record.get("bleu") or {}).items():
        if result:
            run.summary.update({f"bleu/{name}": result["score"], f"bleu/{name}_signature": result["signature"]})
    run.summary.update(dict(_numbers("divergence", record.get("divergence"))))
    if samples:
        run.summary["samples"] = wandb.Table(columns=["source", "reference", "hypothesis"], data=samples)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
