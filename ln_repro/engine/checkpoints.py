"""The checkpoint folder of a run. A file is written, renamed, and then listed in a manifest with its checksum.

Files that are not listed are ignored. This module does not import torch, because the runner uses it, too.
"""

import json
import math
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from ln_repro.errors import LnReproError
from ln_repro.system.files import Json, sha256, sync, write_atomically

MANIFEST = "manifest.json"
KEPT_STATES = 2
CheckpointKind = Literal["weights", "state"]


@dataclass(frozen=True)
class Checkpoint:
    """An entry of the manifest.

    ``kind`` is ``weights`` (after an epoch: torch's file of ``{"model": parameters by name}``) or ``state`` (what a
    resume needs: `ln_repro.engine.trainer.StrictTrainer.save_state`).
    """

    file: str
    kind: CheckpointKind
    update: int
    epoch: int
    sha256: str
    bytes: int


@dataclass(frozen=True)
class State:
    """What a ``state`` contains in addition to parameters, optimizer and number of updates.

    The defaults are those of a new run. No state of a random generator is saved, because each update sets the seeds.
    """

    train_iterator: Json = field(default_factory=dict)
    """fairseq's position in the data: the epoch, and in it the number of mini-batches of each process."""
    ended: int | None = None  # the epoch, if its last update is done
    last_loss: float | None = None  # loss of the last update, in bits per token
    tokens: int = 0  # number of tokens in all updates so far, as counted in the ``train`` events
    processes: int = 1  # number of processes that trained


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one run."""

    folder: Path

    def entries(self) -> list[Checkpoint]:
        """Return the entries of the manifest, oldest first."""
        manifest = self.folder / MANIFEST
        try:
            return [Checkpoint(**entry) for entry in json.loads(manifest.read_bytes())] if manifest.exists() else []
        except (TypeError, ValueError):  # not ignored, or the whole run would be trained again
            raise LnReproError(f"{manifest}: is damaged; delete it to train afresh") from None

    def save(self, kind: CheckpointKind, update: int, epoch: int, write: Callable[[Path], None]) -> None:
        """Write a checkpoint with ``write``, and list it once it is complete and on disk; older states are deleted.

        A crash loses at most this checkpoint.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"epoch{epoch}.pt" if kind == "weights" else f"update{update}.pt"
        part = self.folder / f"{name}.part"
        write(part)
        entry = Checkpoint(name, kind, update, epoch, sha256(part), part.stat().st_size)
        sync(part)
        part.replace(self.folder / name)
        entries = [old for old in self.entries() if old.file != name] + [entry]
        dropped = [old for old in entries if old.kind == "state"][:-KEPT_STATES]
        self._write_manifest([old for old in entries if old not in dropped])
        for old in dropped:
            (self.folder / old.file).unlink(missing_ok=True)

    def resume_point(self, warn: Callable[[str], None], needed: Collection[int] = ()) -> Checkpoint | None:
        """Return the newest intact ``state``; damaged files are renamed and reported.

        If the weights of an epoch in ``needed`` are damaged, an earlier state is returned, so that they are rewritten.
        """
        entries = self.entries()
        weights = [entry for entry in entries if entry.kind == "weights" and entry.epoch in needed]
        damaged = [entry.update for entry in weights if not self._check_or_set_aside(entry, warn)]
        limit = min(damaged, default=math.inf)
        for entry in reversed(entries):
            if entry.kind == "state" and entry.update < limit and self._check_or_set_aside(entry, warn):
                return entry
        return None

    def weights(self) -> dict[int, Checkpoint]:
        """Return the weights of each epoch, by epoch."""
        return {entry.epoch: entry for entry in self.entries() if entry.kind == "weights"}

    def forget_after(self, update: int) -> None:
        """Drop the entries after ``update``, from which training resumes; remove files of saves that were cut off."""
        self._write_manifest([entry for entry in self.entries() if entry.update <= update])
        for part in self.folder.glob("*.pt.part"):
            part.unlink()

    def _check_or_set_aside(self, entry: Checkpoint, warn: Callable[[str], None]) -> bool:
        path = self.folder / entry.file
        if not path.is_file():
            warn(f"checkpoint {entry.file} is missing: resuming from an earlier state")
            return False
        if path.stat().st_size == entry.bytes and sha256(path) == entry.sha256:
            return True
        path.replace(path.with_name(f"{entry.file}.damaged"))
        warn(f"checkpoint {entry.file} does not match its checksum: renamed to {entry.file}.damaged")
        return False

    def _write_manifest(self, entries: list[Checkpoint]) -> None:
        if not entries and not (self.folder / MANIFEST).exists():
            return
        write_atomically(self.folder / MANIFEST, json.dumps([asdict(entry) for entry in entries], indent=1))
