"""Cells handed to a cluster: a list beside the runs, so that none goes twice and `status` knows what waits."""

import json
import uuid
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from ln_repro.events import end_of_torn_line
from ln_repro.lease import Lease, taken


@dataclass(frozen=True)
class Handed:
    """A cell, by the name of its directory, and the job that runs it: number ``index`` of the array marked ``tag``."""

    cell: str
    tag: str
    index: int
    exp: str
    seed: int
    time: str


class Jobs:
    """The list, of one runs folder. A cell may stand there more than once; the last line counts."""

    def __init__(self, runs: Path) -> None:
        self.folder = runs / "sweep"
        self.file = self.folder / "jobs.jsonl"

    def mine(self) -> AbstractContextManager[Lease]:
        """Keep every other sweep, on any machine, from handing cells over meanwhile."""
        return taken(self.folder)

    def read(self) -> dict[str, Handed]:
        """Return the last job of each cell, by cell. A line cut short by a crash is none."""
        found = {}
        for line in self.file.read_text(errors="replace").splitlines() if self.file.exists() else []:
            try:
                handed = Handed(**json.loads(line))
            except (ValueError, TypeError):
                continue
            found[handed.cell] = handed
        return found

    def announce(self, cells: Iterable[tuple[str, str, int]]) -> str:
        """Write down that these cells (directory's name, experiment, seed) go next; return the mark of their array.

        That comes first: whatever dies between this and the cluster's answer, the queue knows the array by its mark.
        """
        tag, now = f"ln-repro-{uuid.uuid4().hex}", datetime.now(UTC).isoformat(timespec="seconds")
        lines = [
            json.dumps(asdict(Handed(name, tag, index, exp, seed, now))) + "\n"
            for index, (name, exp, seed) in enumerate(cells)
        ]
        with self.file.open("a+b", buffering=0) as file:
            file.write(end_of_torn_line(file) + "".join(lines).encode())
        return tag
