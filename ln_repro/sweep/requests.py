"""Requests to stop cells: files beside the runs, so that a sweep on any machine that shares them obeys."""

from collections.abc import Iterable
from pathlib import Path

ALL = "ALL"


class Requests:
    """The requests in a runs folder. Those made before this was called into being are old, and hold no more."""

    def __init__(self, runs: Path) -> None:
        self.folder = runs / "sweep" / "cancelled"
        self._old = {path.name: self._made(path.name) for path in self.folder.glob("*")}

    def make(self, names: Iterable[str]) -> None:
        """Ask for cells (by their directories' names; ``ALL``: every one) to be stopped, wherever they are at work."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            (self.folder / name).touch()

    def pending(self, name: str) -> bool:
        """Return whether this cell is to stop."""
        return any(self._made(one) not in (None, self._old.get(one)) for one in (name, ALL))

    def _made(self, name: str) -> int | None:
        """Return when, if ever, a request was made last."""
        try:
            return (self.folder / name).stat().st_mtime_ns
        except FileNotFoundError:
            return None
