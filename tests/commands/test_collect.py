"""Where `collect` writes: never into an installed package, and no trial runs into a checkout's records unasked."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ln_repro.experiment.compose import compose
from ln_repro.experiment.settings import build
from ln_repro.records.archive import EVENTS, HYPOTHESES, read_kept, unpacked
from tests.examples import recorded
from tests.records.test_integrity import run_folder


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that the package takes for its checkout; the runs are beside it."""
    monkeypatch.setenv("LN_REPRO_RUNS", str(tmp_path / "runs"))
    monkeypatch.setattr("ln_repro.commands.collect.CHECKOUT", tmp_path / "place")
    monkeypatch.setattr("ln_repro.commands.collect.records_folder", lambda: tmp_path / "place" / "records")
    return tmp_path / "place"


def another(run: Path, id: str, **changes: Any) -> None:
    """Copy a run with another id and these settings, written with two underscores for a dot."""
    copy = run.with_name(f"mine-s1-{id}")
    shutil.copytree(run, copy)
    record = json.loads((run / "record.json").read_text()) | {"id": id}
    for key, value in changes.items():
        section, _, name = key.rpartition("__")
        (record["settings"][section] if section else record["settings"])[name] = value
    record["axes"] = recorded(**record).experiment.axes
    (copy / "record.json").write_text(json.dumps(record))


def test_an_installed_package_asks_for_the_folder_and_is_not_written_into(place, tmp_path, call, refused):
    run_folder(tmp_path)
    assert "give --records DIR" in refused("collect") and not place.exists()
    code, out, _ = call("collect", "--records", tmp_path / "kept")
    assert code == 0 and f"the records are in {tmp_path / 'kept'}" in out


def test_trial_runs_are_left_out_of_the_committed_records_and_counted(place, tmp_path, call):
    place.mkdir()
    (place / "pyproject.toml").touch()
    run = run_folder(tmp_path)
    named = build(compose(["exp=toy_preln_nowarm", "precision=fp32"]))
    record = json.loads((run / "record.json").read_text()) | {"settings": named.settings(), "axes": named.axes}
    (run / "record.json").write_text(json.dumps(record))
    another(run, "aaaaaaaaaa", lr=1e-3, init="fairseq")  # as of grid=rates and grid=init
    another(run, "bbbbbbbbbb", optimizer__equal_layer_norms=True)  # as of grid=gradients
    another(run, "cccccccccc", train__max_epoch=1)
    another(run, "dddddddddd")
    path = run.with_name("mine-s1-dddddddddd") / "record.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"data": {**record["data"], "published": False}}))
    another(run, "eeeeeeeeee")
    path = run.with_name("mine-s1-eeeeeeeeee") / "record.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"settings": {**record["settings"], "gone": 1}}))  # of another version
    code, out, err = call("collect")
    assert code == 1 and "left out: 2 runs on other text, or with settings that differ" in out
    assert "eeeeeeeeee: not copied: gone: no such option" in err
    shutil.rmtree(path.parent)
    records = place / "records"
    assert {record.id for record in read_kept(records).records} == {"0123456789", "aaaaaaaaaa", "bbbbbbbbbb"}
    assert call("collect", "--all")[0] == 0
    assert len(read_kept(records).runs) == 5
    archives = sorted(path.name for path in (place / "archive").glob("*.tar.xz"))
    assert archives == ["0001-toy.tar.xz", "0002-toy.tar.xz"]  # the second has the two new ones alone
    names = [name for name, _ in unpacked(place / "archive" / archives[1])]
    assert names == [f"{id}{suffix}" for suffix in (EVENTS, HYPOTHESES) for id in ("cccccccccc", "dddddddddd")]
    before = {path: path.read_bytes() for path in place.glob("*/*.*")}
    assert "is there already" in call("collect", "--all")[1]
    assert {path: path.read_bytes() for path in place.glob("*/*.*")} == before
    shutil.rmtree(place / "archive")
    assert call("collect", "--all")[0] == 0
    assert {record.archive for record in read_kept(records).records} == {"0001-toy.tar.xz"}
    assert len([*unpacked(place / "archive" / "0001-toy.tar.xz")]) == 2 * 5


@pytest.mark.parametrize("changes", [{"id": "../.."}, {"exp": "../x_y"}])
def test_a_name_that_leads_out_of_the_folder_of_records_is_refused(changes, tmp_path, call):
    run = run_folder(tmp_path)
    (run / "record.json").write_text(json.dumps(json.loads((run / "record.json").read_text()) | changes))
    before = sorted(tmp_path.rglob("*"))
    code, _, err = call("collect", run, "--records", tmp_path / "a" / "b")
    assert code == 2 and "string should match pattern" in err
    assert sorted(tmp_path.rglob("*")) == before
