"""How many runs share a place: found from how fast those at work there really are."""

from collections import defaultdict
from pathlib import Path

from ln_repro.errors import LnReproError
from ln_repro.records.run_dir import read_json, write_json

GAIN = 0.07
"""More runs have to bring so much more throughput, or they are too many."""
MEASURED_SECONDS = 10.0
"""Of training by each run, before a number is judged."""
MEMORY = "packing.json"


class Packing:
    """Doubles the number of runs while that gains noticeably, then closes in between what gained and what did not.

    Speeds are compared run by run, where the same run was measured beside fewer and beside more: so cells of different
    size can be compared, and a large one that joins small ones is no loss.

    Args:
        most: never more than so many at a time.
        first: how many are tried first; ``most`` fixes the number.
    """

    def __init__(self, most: int, first: int = 1) -> None:
        self.most = most
        self.runs = min(first, most)
        """How many are to run now."""
        self.good = 0
        """The most that have proved worth it so far; 0: nothing is known."""
        self._too_many = most + 1
        self._windows: defaultdict[int, dict[str, tuple[float, float]]] = defaultdict(dict)

    @classmethod
    def fixed(cls, runs: int) -> "Packing":
        """Return one that is always the same."""
        return cls(runs, runs)

    @property
    def settled(self) -> bool:
        """Return whether nothing else is tried any more."""
        return self._too_many - self.good == 1

    @property
    def measured(self) -> bool:
        """Return whether any speed is known."""
        return bool(self._windows)

    def __str__(self) -> str:
        speeds = ", ".join(f"{runs}: {self.speed(runs):,.0f}" for runs in sorted(self._windows))
        return f"{self.runs} at a time" + (f" (tokens/s of {speeds})" if speeds else "")

    def add(self, run: str, tokens: float, seconds: float) -> bool:
        """Note what one of ``runs`` did for a while, all of them at work; return whether their number changes."""
        done, spent = self._windows[self.runs].get(run, (0.0, 0.0))
        self._windows[self.runs][run] = done + tokens, spent + seconds
        measured = sum(spent for _, spent in self._windows[self.runs].values())
        return not self.settled and measured >= MEASURED_SECONDS * self.runs and self._judge(self._gained())

    def skip(self) -> bool:
        """Take this number for worth it: runs that end before they can be measured do nothing but start."""
        return not self.settled and self._judge(gained=True)

    def speed(self, runs: int) -> float:
        """Return the tokens per second of so many together; 0 where it was not measured."""
        found = self._speeds(runs)
        return runs * sum(found.values()) / len(found) if found else 0.0

    def _judge(self, gained: bool) -> bool:
        tried = self.runs
        if gained:
            self.good = tried
        else:
            self._too_many = tried
        doubling = self._too_many > self.most
        self.runs = min(2 * self.good, self.most) if doubling else (self.good + self._too_many) // 2
        return self.runs != tried

    def _gained(self) -> bool:
        """Return whether the number tried last is noticeably faster than the best before it that was measured."""
        fewer = max((runs for runs in self._windows if runs <= self.good), default=None)
        if fewer is None:
            return True
        before, after = self._speeds(fewer), self._speeds(self.runs)
        if both := before.keys() & after.keys():
            ratio = self.runs / fewer * sum(after[run] / before[run] for run in both) / len(both)
        else:
            ratio = self.speed(self.runs) / self.speed(fewer)
        return ratio >= 1 + GAIN

    def _speeds(self, runs: int) -> dict[str, float]:
        """Return the tokens per second of each run while so many were at work."""
        return {run: tokens / seconds for run, (tokens, seconds) in self._windows.get(runs, {}).items()}


def first_try(folder: Path, work: str) -> int:
    """Return how many runs to begin with: half of what the last sweep of such work found, the rest to be proved."""
    return max(1, _known(folder).get(work, 1) // 2)


def remember(folder: Path, work: str, packing: Packing) -> None:
    """Write down for the next sweep how many runs of such work go together, as far as it was found out."""
    known = _known(folder)
    found = packing.good if packing.settled else max(packing.good, known.get(work, 0))
    if found:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / MEMORY, {**known, work: found})


def _known(folder: Path) -> dict[str, int]:
    """Return what earlier sweeps have found; nothing if the file is damaged, which costs a minute and no more."""
    try:
        found = read_json(folder / MEMORY)
    except LnReproError:
        return {}
    return {work: runs for work, runs in found.items() if isinstance(runs, int)} if isinstance(found, dict) else {}
