"""Requests to stop a cell: files beside the runs, so that a sweep on any machine that shares them obeys."""

from collections.abc import Iterable
from pathlib import Path


class Requests:
    """The requests in a runs folder. One holds until a sweep is told to run the cell again."""

    def __init__(self, runs: Path) -> None:
        self.folder = runs / "sweep" / "cancelled"

    def make(self, names: Iterable[str]) -> None:
        """Ask for these cells (by their directories' names) to be stopped, wherever they are at work."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            (self.folder / name).touch()

    def withdraw(self, names: Iterable[str]) -> None:
        """Let these cells run again."""
        for name in names:
            (self.folder / name).unlink(missing_ok=True)

    def pending(self, name: str) -> bool:
        """Return whether this cell is to stop."""
        return (self.folder / name).exists()
