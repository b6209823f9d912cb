"""Where `collect` writes: never into an installed package, and no trial runs into a checkout's records unasked."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ln_repro.experiment.compose import compose
from ln_repro.experiment.settings import build
from tests.records.test_integrity import run_folder

ROOT = Path(__file__).resolve().parents[2]


def copied(place: Path, conf: str) -> Path:
    """Copy the project to a folder, with its configuration at ``conf``; return the folder."""
    for name, target in (("ln_repro", "ln_repro"), ("conf", conf)):
        shutil.copytree(ROOT / name, place / target, ignore=shutil.ignore_patterns("__pycache__"))
    return place


def collect(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Collect with a copy of the project the runs beside it."""
    environment = {**os.environ, "PYTHONPATH": str(place), "LN_REPRO_RUNS": str(place.parent / "runs")}
    return subprocess.run([sys.executable, "-P", "-m", "ln_repro.cli", "collect", *arguments], cwd=place.parent,
                          env=environment, capture_output=True, text=True, check=False)  # fmt: skip


def another(run: Path, id: str, **changes: Any) -> None:
    """Copy a run with another id and these settings, written with two underscores for a dot."""
    copy = run.with_name(f"mine-s1-{id}")
    shutil.copytree(run, copy)
    record = json.loads((run / "record.json").read_text()) | {"id": id}
    for key, value in changes.items():
        section, _, name = key.rpartition("__")
        (record["experiment"][section] if section else record["experiment"])[name] = value
    (copy / "record.json").write_text(json.dumps(record))


def test_an_installed_package_asks_for_the_folder_and_is_not_written_into(tmp_path):
    place = copied(tmp_path / "installed", "ln_repro/conf")
    run_folder(tmp_path)
    done = collect(place)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "give --records DIR" in done.stderr
    assert not (place / "results").exists()
    done = collect(place, "--records", str(tmp_path / "kept"))
    assert done.returncode == 0 and f"the records are in {tmp_path / 'kept'}" in done.stdout


def test_trial_runs_are_left_out_of_the_committed_records_and_counted(tmp_path):
    place = copied(tmp_path / "checkout", "conf")
    (place / "pyproject.toml").touch()
    run = run_folder(tmp_path)
    named = build(compose(["exp=toy_preln_nowarm", "precision=fp32"])).settings()
    (run / "record.json").write_text(json.dumps(json.loads((run / "record.json").read_text()) | {"experiment": named}))
    another(run, "aaaaaaaaaa", lr=1e-3, init="fairseq")  # as of grid=rates and grid=init
    another(run, "bbbbbbbbbb", optimizer__equal_layer_norms=True)  # as of grid=gradients
    another(run, "cccccccccc", train__max_epoch=1)
    done = collect(place)
    assert done.returncode == 0, done.stderr
    assert "left out: 1 runs with other settings" in done.stdout and "(--all includes them)" in done.stdout
    records = place / "results" / "records"
    assert {path.stem for path in records.rglob("*.json")} == {"0123456789", "aaaaaaaaaa", "bbbbbbbbbb"}
    assert collect(place, "--all").returncode == 0
    assert len(list(records.rglob("*.json"))) == 4


@pytest.mark.parametrize("changes", [{"id": "../.."}, {"exp": "../x_y"}])
def test_a_name_that_leads_out_of_the_folder_of_records_is_refused(changes, tmp_path, call):
    run = run_folder(tmp_path)
    (run / "record.json").write_text(json.dumps(json.loads((run / "record.json").read_text()) | changes))
    before = sorted(tmp_path.rglob("*"))
    code, _, err = call("collect", run, "--records", tmp_path / "a" / "b")
    assert code == 2 and "is not a plain file name" in err
    assert sorted(tmp_path.rglob("*")) == before
