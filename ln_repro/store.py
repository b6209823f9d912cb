"""Run directories: names, claims, the experiment and the record. A directory without `record.json` is unfinished."""

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from ln_repro.disk import write_atomically
from ln_repro.errors import LnReproError
from ln_repro.events import Events
from ln_repro.experiment import Experiment

CLAIM_SECONDS = 15.0
"""How long to wait for a directory whose command is gone but whose trainer is just ending."""


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
        """Return the record, or None while the run is unfinished."""
        return read_json(self.path / "record.json")

    @property
    def experiment(self) -> dict[str, Any] | None:
        """Return the experiment as it was written down, or None."""
        return read_json(self.path / "experiment.json")

    @contextmanager
    def claim(self) -> Iterator[int]:
        """Own the directory; yield the lock's file descriptor, to be inherited by the workers.

        The kernel frees the lock when the last process that holds it is gone, however it died, so a directory
        never has two writers, and a trainer whose command was killed keeps the next command out until it ends.

        Raises:
            LnReproError: another command is at work in it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with self._acquire() as lock:
            lock.truncate(0)
            lock.write(f"process {os.getpid()}")
            lock.flush()
            yield lock.fileno()

    def _acquire(self) -> TextIO:
        """Return the lock file, locked, and still the one of this directory: it may have been set aside meanwhile."""
        deadline = time.monotonic() + CLAIM_SECONDS
        while True:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / ".lock").open("a+")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(lock.fileno()), (self.path / ".lock").stat()):
                    return lock
            except (BlockingIOError, FileNotFoundError):
                pass
            lock.close()
            if time.monotonic() > deadline:
                owner = (self.path / ".lock").read_text() or "another process"
                raise LnReproError(f"{self.path} is in use by {owner}; wait for it or stop it")
            time.sleep(0.2)

    def in_use(self) -> bool:
        """Return whether a command or one of its workers is at work here."""
        try:
            with (self.path / ".lock").open() as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            return False
        return False

    @property
    def state(self) -> str:
        """Return ``planned running interrupted finished diverged``, or ``failed`` where the record is damaged."""
        try:
            record = self.record
        except LnReproError:
            return "failed"
        if record is not None:
            return str(record["status"])
        if not self.path.exists():
            return "planned"
        return "running" if self.in_use() else "interrupted"

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
    except json.JSONDecodeError as error:
        raise LnReproError(f"{path} is not valid JSON ({error}); move it away and run again") from None


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON file so that it is either absent or whole, whatever happens."""
    write_atomically(path, json.dumps(value, indent=1, allow_nan=False) + "\n")
