"""Requests to stop runs, stored as files that sweeps on all machines with access to the folder can see."""

from collections.abc import Iterable
from pathlib import Path

ALL = "ALL"


class Cancellations:
    """The requests in a runs folder; those made before this object was created are ignored."""

    def __init__(self, runs: Path) -> None:
        self.folder = runs / "sweep" / "cancelled"
        self._old = {path.name: self._made(path.name) for path in self.folder.glob("*")}

    def request(self, names: Iterable[str]) -> None:
        """Request that runs be stopped, by the names of their directories (``ALL``: every run)."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            (self.folder / name).touch()

    def pending(self, name: str) -> bool:
        """Return whether there is a request to stop this run."""
        return any(self._made(one) not in (None, self._old.get(one)) for one in (name, ALL))

    def _made(self, name: str) -> int | None:
        """Return the time of the last request; None if there was none."""
        try:
            return (self.folder / name).stat().st_mtime_ns
        except FileNotFoundError:
            return None
