"""Run directories; the run is finished if there is a `record.json`."""

import contextlib
import glob
import itertools
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ln_repro.errors import UserError
from ln_repro.experiment.settings import Experiment, build
from ln_repro.experiment.validation import validate
from ln_repro.records.events import Events
from ln_repro.records.record import Record
from ln_repro.system.directory_lock import DirectoryLock, Holder, acquire, holder
from ln_repro.system.files import Json, read_json, warn, write_atomically

EXPERIMENT = "experiment.json"
FAILURE = "failure.json"
RECORD = "record.json"
SAMPLES = "samples.json"  # (source, reference, hypothesis) of some test sentences


@dataclass(frozen=True)
class RunFolder:
    """The files of one run."""

    path: Path

    @classmethod
    def of(cls, experiment: Experiment, run_id: str) -> "RunFolder":
        return cls(experiment.paths.runs.absolute() / f"{experiment.exp}-s{experiment.seed}-{run_id}")

    @property
    def events(self) -> Events:
        return Events(self.path / "events.jsonl")

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def log(self) -> Path:
        return self.path / "train.log"

    def hypotheses(self, split: str, epoch: int, tokenised: bool = False) -> Path:
        """Return the path of the hypotheses of an epoch, detokenised or tokenised (without BPE)."""
        return self.path / "hyps" / f"{split}.epoch{epoch}{'.tok' if tokenised else ''}.txt"

    @property
    def record(self) -> Record | None:
        """The record; None if the run is unfinished or the record is damaged."""
        if self.path.is_dir():
            os.listdir(self.path)  # noqa: PTH208 - refreshes the cache of a network file system
        fields = read_json(self.path / RECORD, dict)
        try:
            return None if fields is None else validate(Record, fields)
        except UserError as error:
            warn(f"{self.path / RECORD} is ignored: {error}")
            return None

    @property
    def experiment(self) -> Json | None:
        """The settings of the experiment, and its id; None if the file does not exist or is damaged."""
        return read_json(self.path / EXPERIMENT, dict)

    def read_experiment(self) -> tuple[str | None, Experiment]:
        """Return the id and the experiment in the file; raise `UserError` if its settings are invalid."""
        settings = dict(self.experiment or {})
        return settings.pop("id", None), build(settings)

    def describe(self, experiment: Experiment, id: str) -> None:
        """Write the settings and the id, which make the directory that of a run."""
        write_json(self.path / EXPERIMENT, {**experiment.model_dump(mode="json"), "id": id})

    def lock(self) -> DirectoryLock:
        """Lock the directory, or raise `InUseError` if another process has locked it."""
        return acquire(self.path)

    @property
    def holder(self) -> Holder | None:
        """The process that has locked the directory, or None."""
        return holder(self.path)

    @property
    def failure(self) -> str | None:
        """The reason of the last session's failure; None if it did not fail."""
        if not (self.path / FAILURE).exists():
            return None
        return (read_json(self.path / FAILURE, dict) or {}).get("error") or "unknown"

    def fail(self, error: str) -> None:
        """Record that this session failed; the next session removes the file."""
        with contextlib.suppress(OSError):  # for example a full disk
            write_json(self.path / FAILURE, {"error": error})

    def begin(self, say: Callable[[str], None]) -> None:
        """Remove the failure of the last session, and rename a damaged record."""
        (self.path / FAILURE).unlink(missing_ok=True)
        if self.record is None and (record := self.path / RECORD).exists():
            say(f"{RECORD} is damaged: renamed to {_set_aside(record, 'damaged').name}")

    def finish(self, record: Record, samples: Sequence[tuple[str, str, str]]) -> None:
        """Write the samples, if there are any, and then the record, which marks the run as finished."""
        if samples:
            write_atomically(self.path / SAMPLES, json.dumps(samples, ensure_ascii=False))
        write_json(self.path / RECORD, record.plain())

    @property
    def state(self) -> str:
        """One of planned, running, interrupted, failed (also with a damaged record), finished and diverged."""
        if record := self.record:
            return record.status
        if not self.path.exists():
            return "planned"
        if self.holder:
            return "running"
        return "failed" if self.failure or (self.path / RECORD).exists() else "interrupted"

    def set_aside(self) -> Path:
        """Rename the directory so that a new run can use its name; return the new path."""
        return _set_aside(self.path, "old")


def runs_under(folder: Path) -> list[RunFolder]:
    """Return the run directories in ``folder``, without those that were renamed, cannot be read or are damaged."""
    runs = [RunFolder(path) for path in sorted(folder.glob("*")) if path.is_dir()]
    return [run for run in runs if not re.search(r"\.old\d+$", run.path.name) and _readable(run)]


def find_run(word: str, runs: Path) -> RunFolder:
    """Return the run with this path or, in ``runs``, with this name or id; raise `UserError` if there is none."""
    folder = Path(word).absolute()
    if folder.is_dir() and RunFolder(folder).experiment is not None:
        return RunFolder(folder)
    for path in (runs / word, *sorted(runs.glob(f"*-{glob.escape(word)}"))):
        if word in (path.name, path.name.rpartition("-")[2]) and path.is_dir() and _readable(RunFolder(path)):
            return RunFolder(path)
    raise UserError(f"{word}: not a run directory, nor a run under {runs} (`ln-repro status` lists them)")


def _readable(run: RunFolder) -> bool:
    """Return whether a folder has a run's settings, and its files can be read; if they cannot, warn."""
    try:
        if run.experiment is None:
            return False
        for path in (run.path / RECORD, run.events.path):
            if path.exists():
                path.open("rb").close()
        return True
    except OSError as error:  # for example another user's
        warn(f"{error.filename} is ignored: {error.strerror}")
        return False


def _set_aside(path: Path, end: str) -> Path:
    """Rename a file or directory to its name with ``end`` and the first number that is free; return the new path."""
    names = (path.with_name(f"{path.name}.{end}{number}") for number in itertools.count(1))
    return path.rename(next(name for name in names if not name.exists()))


def write_json(path: Path, value: Mapping[str, object]) -> None:
    write_atomically(path, json.dumps(value, indent=1, allow_nan=False) + "\n")
