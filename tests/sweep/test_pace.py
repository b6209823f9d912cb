"""What counts as steady training, and a pool that finds its number from what its runs report."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from ln_repro.records.events import Events
from ln_repro.sweep import cell, local, packing, queued
from ln_repro.sweep.budget import Budget
from ln_repro.sweep.devices import Place
from ln_repro.sweep.local import Pool
from ln_repro.sweep.pace import Pace
from ln_repro.sweep.packing import Packing
from ln_repro.sweep.plan import Planned
from ln_repro.sweep.progress import Board
from ln_repro.sweep.requests import Requests
from tests.sweep.test_local import planned


class Clock:
    """Stands in for `datetime` where events are written and read."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self, _: object) -> datetime:
        return self.time

    def pass_by(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)

    fromisoformat = staticmethod(datetime.fromisoformat)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in ("events", "sweep.pace"):
        monkeypatch.setattr(f"ln_repro.{module}.datetime", made)
    return made


def train(events: Events, seconds: float = 6.0, tokens: int = 600) -> None:
    events.write("train", 1, 1, tokens=tokens, seconds=seconds)


def test_only_windows_of_steady_training_by_all_count(clock: Clock, tmp_path: Path) -> None:
    first, second = Events(tmp_path / "a"), Events(tmp_path / "b")
    train(first)  # of an earlier session
    clock.pass_by(10)
    pace = Pace(Packing(4))

    def after(seconds: float, *reporting: Events) -> dict[str, tuple[float, float]]:
        """Return what has been counted with as many runs as there are to be now."""
        clock.pass_by(seconds)
        for events in reporting:
            train(events)
        pace.look({"a": first, "b": second} if pace.packing.runs > 1 else {"a": first})
        return dict(pace.packing._windows.get(pace.packing.runs, {}))

    assert after(0) == {}
    assert after(7, first) == {}  # its first: warm-up
    assert after(7, first) == {"a": (600, 6)}
    assert after(7, first) == {} and pace.packing.runs == 2  # that was enough
    assert after(7, first) == {}  # the second has only started
    assert after(7, first, second) == {}  # and now it is warm
    assert after(3, first) == {}  # a window that began before that
    assert after(4, second) == {"b": (600, 6)}
    first.write("status", 9, 1, state="trained")
    assert after(7, second) == {"b": (600, 6)}  # the first only decodes by now
    pace.look({"b": second})
    assert pace.packing.runs == 2 and pace.packing.speed(2) == 200


def test_a_run_that_was_never_measured_makes_room_for_more(clock: Clock, tmp_path: Path) -> None:
    pace = Pace(Packing(4))
    pace.look({"a": Events(tmp_path / "a")})
    assert pace.finished("a") and pace.packing.runs == 2
    pace = Pace(Packing(4))
    pace.look({"a": Events(tmp_path / "a")})
    for _ in range(2):
        clock.pass_by(7)
        train(Events(tmp_path / "a"))
    pace.look({"a": Events(tmp_path / "a")})
    assert not pace.finished("a") and pace.packing.runs == 1


class RunOnGpu:
    """Stands in for the process of a run, on a GPU that two of them fill: 30 events, one at each tick of the clock."""

    pid = 0

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder, self.left = folder, 30

    def poll(self) -> int | None:
        return None if self.left else 0

    def terminate(self) -> None:
        self.left = 0

    def wait(self, _: float) -> None: ...

    def tick(self, beside: int) -> None:
        values = {"loss": 1.0, "tokens": 100 * min(beside, 2) / beside, "seconds": 0.1}
        Events(self.folder / "events.jsonl").write("train", 1, 1, **values)
        self.left -= 1
        if not self.left:
            (self.folder / "record.json").write_text('{"status": "finished", "bleu": {"test": null}}')


def test_a_pool_finds_how_many_runs_fill_a_gpu(clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "MEASURED_SECONDS", 0.5)
    plan: list[Planned] = [planned(tmp_path, "good", seed) for seed in range(1, 11)]
    most = 0

    def start(file: Path, log: Path, environment: dict[str, str]) -> RunOnGpu:
        nonlocal most
        most = max(most, 1 + len(pool.running))
        return RunOnGpu(next(p for p in plan if p.name == queued.name(file)).folder.path)

    def pass_by(_: float) -> None:
        clock.pass_by(0.1)
        for running in pool.running:
            running.process.tick(len(pool.running))  # type: ignore[attr-defined]

    monkeypatch.setattr(cell, "start", start)
    monkeypatch.setattr(local.time, "sleep", pass_by)
    board = Board(plan, console=Console(file=(tmp_path / "screen").open("w")))
    place, said = Place("gpu 0", Packing(4), []), []
    monkeypatch.setattr(board, "say", said.append)
    pool = Pool([place], 0, tmp_path / "sweep", Requests(tmp_path), board, Budget(None, plan, 0.0))
    pool.run(plan)
    assert all(one.done for one in plan)
    assert most == 4 and place.packing.settled and place.packing.runs == 2
    assert place.packing.speed(1) == pytest.approx(1000)
    assert place.packing.speed(2) == pytest.approx(2000)
    assert [line.partition(" (")[0] for line in said if line.startswith("gpu 0:")] == [
        f"gpu 0: {runs} at a time" for runs in (2, 4, 3, 2)
    ]
    assert "(tokens/s of 1: " in pool.board.note
