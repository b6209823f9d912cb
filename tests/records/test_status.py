"""The state of a run, from its files alone."""

import pytest

from ln_repro.records.run_dir import RunFolder, runs_under, write_json
from ln_repro.records.status import RunStatus, status_of
from tests.examples import diverged, record


@pytest.mark.parametrize(
    ("losses", "finished", "expected"),
    [
        ({20: 9.0, 40: 2.5}, record(), ("finished", 40, 2.5, 41.512)),
        ({20: 9.0, 40: None}, diverged(), ("diverged", 40, None, None)),
        ({}, None, ("interrupted", 0, None, None)),
    ],
)
def test_the_state_of_a_run(tmp_path, losses, finished, expected):
    place = tmp_path / "my runs"
    run = RunFolder(place / "toy_preln_nowarm-s1-0123456789")
    run.path.mkdir(parents=True)
    write_json(run.path / "experiment.json", {"exp": "toy_preln_nowarm", "seed": 1, "lr": 2e-3, "id": "0123456789"})
    run.events.write("status", 0, 1, state="started")
    run.events.write("status", 0, 1)  # damaged, which must not hide the other runs
    for update, loss in losses.items():
        run.events.write("train", update, 1, loss=loss)
    if finished:
        write_json(run.path / "record.json", finished)
    (status,) = map(status_of, runs_under(place))
    assert status == RunStatus("0123456789", "toy_preln_nowarm", 1, 2e-3, *expected, str(run.path))
    with run.lock():
        assert (status_of(run).state == "running") == (finished is None)
