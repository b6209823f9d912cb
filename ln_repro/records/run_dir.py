"""Run directories: names, claims, the experiment and the record. A directory without `record.json` is unfinished."""

import contextlib
import json
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ln_repro.errors import LnReproError
from ln_repro.experiment.settings import Experiment
from ln_repro.records.events import Events
from ln_repro.system.directory_lock import DirectoryLock, Holder, acquire, holder
from ln_repro.system.files import write_atomically

FAILURE = "failure.json"
RECORD = "record.json"


@dataclass(frozen=True)
class RunFolder:
    """The files of one run."""

    path: Path

    @classmethod
    def of(cls, experiment: Experiment, run_id: str) -> "RunFolder":
        """Return where ``experiment`` lives."""
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
        """Return the file of an epoch's hypotheses, detokenised or as the model gave them (without BPE)."""
        return self.path / "hyps" / f"{split}.epoch{epoch}{'.tok' if tokenised else ''}.txt"

    @property
    def record(self) -> dict[str, Any] | None:
        """Return the record; None while the run is unfinished, as it is with a record that cannot be read."""
        found = self._read(RECORD)
        if found is None and self.path.is_dir():
            os.listdir(self.path)  # noqa: PTH208 - a network file system now looks whether it has come meanwhile
            found = self._read(RECORD)
        return found if found and "status" in found else None

    @property
    def experiment(self) -> dict[str, Any] | None:
        """Return the experiment as it was written down; None if it was not, or cannot be read."""
        return self._read("experiment.json")

    def _read(self, name: str) -> dict[str, Any] | None:
        """Return what one of our JSON files holds; None when it is absent or damaged."""
        try:
            found = read_json(self.path / name)
        except LnReproError:
            return None
        return found if isinstance(found, dict) else None

    def claim(self) -> AbstractContextManager[DirectoryLock]:
        """Lock the directory; the lock's descriptor is for the workers to inherit.

        Raises:
            InUseError: another command runs in it.
        """
        return acquire(self.path)

    @property
    def holder(self) -> Holder | None:
        """Return the process that runs here; None if there is none."""
        return holder(self.path)

    @property
    def failure(self) -> dict[str, Any] | None:
        """Return when and how the last session failed; None when it did not."""
        try:
            return read_json(self.path / FAILURE)
        except LnReproError:
            return {"time": None, "error": "unknown"}

    def fail(self, error: str) -> None:
        """Leave word of how this session failed, for `status`; the next one takes it away."""
        with contextlib.suppress(OSError):  # a full disk: the message on the terminal has to do
            write_json(self.path / FAILURE, {"time": datetime.now(UTC).isoformat(timespec="seconds"), "error": error})

    def begin(self, say: Callable[[str], None]) -> None:
        """Clear away what the last session left: its failure, and a record that a crash has cut short."""
        (self.path / FAILURE).unlink(missing_ok=True)
        if self.record is None and (record := self.path / RECORD).exists():
            record.replace(record.with_name(f"{RECORD}.damaged"))
            say(f"{RECORD} is damaged: set aside as {RECORD}.damaged, and made anew")

    @property
    def state(self) -> str:
        """Return ``planned running interrupted failed finished diverged``; with a damaged record, ``failed``."""
        if record := self.record:
            return str(record["status"])
        if not self.path.exists():
            return "planned"
        if self.holder:
            return "running"
        return "failed" if self.failure or (self.path / RECORD).exists() else "interrupted"

    def set_aside(self) -> Path:
        """Rename the directory so that a new run can take its place; nothing is deleted."""
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.old{number}")).exists():
            number += 1
        return self.path.rename(aside)


def runs_under(folder: Path) -> list[RunFolder]:
    """Return every run directory below ``folder``, those set aside left out."""
    found = sorted(path.parent for path in folder.glob("*/experiment.json"))
    return [RunFolder(path) for path in found if ".old" not in path.name]


def read_json(path: Path) -> Any:
    """Return what a JSON file holds; None when it is absent."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:  # no JSON, or no text at all
        raise LnReproError(f"{path} is not valid JSON ({error}); move it away and run again") from None


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON file so that it is either absent or whole, whatever happens."""
    write_atomically(path, json.dumps(value, indent=1, allow_nan=False) + "\n")
