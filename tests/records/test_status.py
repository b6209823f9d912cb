"""One row per run, from its files alone, in a table that fits a terminal."""

from pathlib import Path

import pytest

from ln_repro.records.run_dir import RunFolder, runs_under, write_json
from ln_repro.records.status import RunStatus, status_of, table
from tests.examples import diverged, record


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a folder of runs with a name that needs care."""
    folder = tmp_path / "my runs"
    folder.mkdir()
    return folder


def make(place: Path, exp: str, losses: dict[int, float | None], finished=None, lr: float = 2e-3) -> RunFolder:
    """Make a run directory."""
    run = RunFolder(place / f"{exp}-s1-{abs(hash(lr)) % 10**10:010}")
    run.path.mkdir()
    write_json(run.path / "experiment.json", {"exp": exp, "seed": 1, "lr": lr, "id": "0123456789"})
    run.events.write("status", 0, 1, state="started")
    for update, loss in losses.items():
        run.events.write("train", update, 1, loss=loss)
    if finished:
        write_json(run.path / "record.json", finished)
    return run


def statuses(place: Path) -> list[RunStatus]:
    """Return the state of every run."""
    return [status_of(run) for run in runs_under(place)]


@pytest.mark.parametrize(
    ("losses", "finished", "expected"),
    [
        ({20: 9.0, 40: 2.5}, record(), ("finished", 40, 2.5, 41.512)),
        ({20: 9.0, 40: None}, diverged(), ("diverged", 40, None, None)),
        ({}, None, ("interrupted", 0, None, None)),
    ],
)
def test_the_state_of_a_run(place, losses, finished, expected):
    run = make(place, "toy_preln_nowarm", losses, finished)
    state, update, loss, bleu = expected
    status = RunStatus("0123456789", "toy_preln_nowarm", 1, 2e-3, state, update, loss, bleu, str(run.path))
    assert statuses(place) == [status]
    with run.lock():
        assert (statuses(place)[0].state == "running") == (finished is None)


def test_the_table_has_the_rates_of_an_experiment_that_has_several(place):
    for lr in (1e-3, 2.5e-4):
        make(place, "toy_preln_nowarm", {20: 9.0}, lr=lr)
    head, *lines = table(statuses(place)).splitlines()
    assert head.split()[:2] == ["exp", "lr"] and {line.split()[1] for line in lines} == {"0.001", "0.00025"}
