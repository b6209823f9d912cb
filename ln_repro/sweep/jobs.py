"""Cells handed to a cluster: a list beside the runs, so that none goes twice and `status` knows what waits."""

import json
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from ln_repro.events import end_of_torn_line
from ln_repro.lease import Lease, taken


@dataclass(frozen=True)
class Handed:
    """A cell, by the name of its directory, and the cluster's job that runs it."""

    cell: str
    job: str
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
        for line in self.file.read_text().splitlines() if self.file.exists() else []:
            try:
                handed = Handed(**json.loads(line))
            except (ValueError, TypeError):
                continue
            found[handed.cell] = handed
        return found

    def add(self, cells: Iterable[tuple[str, str, int]], jobs: Sequence[str]) -> None:
        """Write down which job runs which cell: (directory's name, experiment, seed)."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        lines = [
            json.dumps(asdict(Handed(name, job, exp, seed, now)))
            for (name, exp, seed), job in zip(cells, jobs, strict=True)
        ]
        with self.file.open("a+b", buffering=0) as file:
            file.write(end_of_torn_line(file) + "".join(f"{line}\n" for line in lines).encode())
