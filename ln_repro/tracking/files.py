"""The small files by which the runner, its follower and a later sync understand each other, all in ``RUN/wandb``."""

import contextlib
import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ln_repro.records.events import Events
from ln_repro.system.files import write_atomically


class MirrorFiles:
    """Where they are: below ``place``, which is the run's directory unless said."""

    def __init__(self, run_dir: Path, place: Path | None = None) -> None:
        self.run_dir = run_dir
        self.place = place or run_dir
        self.home = self.place / "wandb"
        self.events = Events(run_dir / "events.jsonl")
        self.final = self.home / "final.json"
        """The record and samples of a finished run, for the follower or a later sync."""
        self.synced = self.home / "synced.json"
        """What the server held when everything was last known to be there."""
        self.lock = self.home / "lock"
        self.log = self.home / "follower.log"
        self.scratch = self.home / "scratch"

    def state(self) -> dict[str, Any]:
        """Return what a complete mirror of the run holds at this moment."""
        count = sum(1 for _ in self.events.follow().new())
        return {"server": server(), "events": count, "finished": self.final.exists()}

    @property
    def busy(self) -> bool:
        """Return whether a follower is at work with these files."""
        with contextlib.suppress(FileNotFoundError), self.lock.open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def last_word(self) -> str:
        """Return the last line that the follower wrote."""
        try:
            lines = self.log.read_text(errors="replace").split("\n")
        except OSError as error:
            return str(error)
        return next(filter(None, reversed(lines)), "its process was killed")[:300]


def server() -> str:
    """Name the server and the account that the environment points at (neither is a secret)."""
    return "/".join(os.environ.get(name, "") for name in ("WANDB_BASE_URL", "WANDB_ENTITY"))


def read(path: Path) -> dict[str, Any]:
    """Return a small JSON file's content; nothing if it is missing or torn."""
    try:
        return dict(json.loads(path.read_bytes()))
    except (OSError, ValueError):
        return {}


def write(path: Path, value: Mapping[str, Any]) -> None:
    """Write a small JSON file whole or not at all."""
    write_atomically(path, json.dumps(value))
