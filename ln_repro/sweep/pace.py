"""How fast the runs at a place train, from their events: what `Packing` goes by."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from ln_repro.records.events import Event, Events, Follower
from ln_repro.sweep.packing import Packing


@dataclass
class Runner:
    """A run that is looked at: from when on, and the end of its first window, which is its warm-up."""

    follower: Follower
    since: datetime
    warm: datetime | None = None
    ended: bool = False
    """Training has: what the process still does is no training."""
    counted: bool = False

    def windows(self) -> list[Event]:
        """Return the new reports of training; those of an earlier session and the first are left out."""
        found = []
        for event in self.follower.new():
            if event["kind"] == "status":
                self.ended = self.ended or (event["state"] in ("trained", "diverged") and opened(event) >= self.since)
            elif event["kind"] == "train" and opened(event) >= self.since:
                if self.warm is not None:
                    found.append(event)
                self.warm = self.warm or datetime.fromisoformat(event["time"])
        return found


@dataclass
class Pace:
    """Follows the runs at a place, and tells its packing what they do while all of them are in steady training."""

    packing: Packing
    runners: dict[str, Runner] = field(default_factory=dict)
    changed: datetime = field(default_factory=lambda: datetime.now(UTC))

    def look(self, here: Mapping[str, Events]) -> bool:
        """Read what the runs that are here, by name, have reported; return whether another number is to run now."""
        self._keep(here)
        windows = [(name, window) for name, runner in self.runners.items() for window in runner.windows()]
        if len(here) != self.packing.runs or any(not r.warm or r.ended for r in self.runners.values()):
            return False
        steady = max([self.changed, *(runner.warm for runner in self.runners.values() if runner.warm)])
        for name, window in windows:
            if opened(window) >= steady:
                self.runners[name].counted = True
                if self.packing.add(name, window["tokens"], window["seconds"]):
                    return True
        return False

    def finished(self, name: str) -> bool:
        """Take note that a run has ended well; return whether another number is to run now."""
        runner = self.runners.get(name)
        return (
            runner is not None and not runner.counted and len(self.runners) == self.packing.runs and self.packing.skip()
        )

    def _keep(self, here: Mapping[str, Events]) -> None:
        """Begin to follow those that are new, and leave those that are gone."""
        if here.keys() != self.runners.keys():
            self.changed = datetime.now(UTC)
            known = self.runners
            self.runners = {name: known.get(name) or Runner(here[name].follow(), self.changed) for name in here}


def opened(event: Event) -> datetime:
    """Return when the time began that an event reports on."""
    return datetime.fromisoformat(event["time"]) - timedelta(seconds=event.get("seconds", 0.0))
