"""`ln-repro theory`: the plan, the random numbers, the file that keeps what was measured, and the command line."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ln_repro.claims.rules.th import STATEMENTS
from ln_repro.theory import measurements
from ln_repro.theory.checks import CHECKS
from ln_repro.theory.measurements import FULL, Scale, measure, units
from ln_repro.theory.unit import Unit, grouped, select
from tests.waiting import HANGS_SECONDS

KEYS = "id statement paper place values quantity interval rule verdict seeds parts note".split()
Call = Callable[..., tuple[int, str, str]]


def test_json_has_the_requested_findings_and_nothing_is_measured_twice(empty_place: Path, call: Call) -> None:
    code, out, _ = call("theory", "--only", "TH-4", "TH-1", "--json")
    findings = json.loads(out)
    assert code == 0 and [list(finding) for finding in findings] == [KEYS, KEYS]
    assert [finding["id"] for finding in findings] == ["TH-1", "TH-4"]
    assert {(finding["verdict"], finding["seeds"]) for finding in findings} == {("reproduced", 10)}
    store = empty_place / "runs" / "theory" / "measurements.jsonl"
    before = store.read_bytes()
    code, out, _ = call("theory", "--only", "TH-1", "--out", "out")
    assert code == 0 and store.read_bytes() == before and max(map(len, out.splitlines())) <= 80
    assert json.loads(Path("out", "theory.json").read_text())["findings"] == findings[:1]


@pytest.mark.slow
def test_everything_is_measured_judged_and_drawn(empty_place, call, monkeypatch) -> None:
    """All of it, at a small scale."""
    monkeypatch.setattr(measurements, "QUICK", Scale({16: (32,)}, (1,), (16,), (2, 3), (6, 7), ()))
    monkeypatch.setattr(measurements, "HIDDEN_DRAWS", 0)
    monkeypatch.setattr(measurements, "GRADIENT_DRAWS", 0)
    monkeypatch.setattr(measurements, "REAL", {"width": 16, "ffn": 32, "vocabulary": 100})
    code, out, _ = call("theory", "--json", "--out", empty_place)
    findings = json.loads(out)
    assert code == 0 and [finding["id"] for finding in findings] == list(STATEMENTS)
    written = json.loads((empty_place / "theory.json").read_text())
    assert written["findings"] == findings
    assert (empty_place / "figures" / "initialisation.png").stat().st_size > 10_000


@pytest.mark.slow
def test_ctrl_c_gives_one_line_and_keeps_the_measurements(empty_place: Path) -> None:
    """With so many seeds, not everything is measured at once, on any number of cores."""
    command = [sys.executable, "-m", "ln_repro.cli", "theory", "--only", "TH-6", "--seeds", "1000"]
    store = empty_place / "runs" / "theory" / "measurements.jsonl"
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        while not (store.exists() and store.read_text().count("\n")):
            assert running.poll() is None
            time.sleep(0.2)
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does: to the workers, too
        out, err = running.communicate(timeout=HANGS_SECONDS)
    last = err.splitlines()[-1]
    assert (running.returncode, out) == (130, "") and last.startswith("ln-repro: interrupted"), err
    assert all(line.startswith("measuring ") for line in err.splitlines()[:-1])
    assert all(json.loads(line) for line in store.read_text().splitlines())


UNITS = [Unit.of("relu", seed, d=8, sigma=1.0, numbers=64) for seed in range(1, 4)]


def test_the_full_plan_has_enough_seeds_for_every_check() -> None:
    planned = [(unit, {}) for unit in units(FULL, list(STATEMENTS))]
    for check in CHECKS:
        selected = select(planned, check.what, check.where)
        groups = grouped(selected, lambda unit, by=check.by: tuple(unit[name] for name in by))
        assert groups, check
        for group in groups.values():
            assert len({unit.seed for unit, _ in group}) >= max(check.seeds, 10)


def test_units_draw_independent_but_repeatable_numbers() -> None:
    drawn = [Unit.of("relu", seed, d=d) for seed, d in ((1, 64), (1, 64), (2, 64), (1, 65))]
    one, same, seed, setting = (torch.randn(4, generator=unit.generator()) for unit in drawn)
    assert one.equal(same) and not one.equal(seed) and not one.equal(setting)


def go(store: Path) -> tuple[list[float], list[int]]:
    """Return what was measured, and the progress reported."""
    said: list[int] = []
    measured = measure(UNITS, store, said.append)
    assert [unit for unit, _ in measured] == UNITS
    return [measurement["ratio"] for _, measurement in measured], said


@pytest.mark.slow
def test_stored_measurements_are_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "measurements.jsonl"
    first, said = go(store)
    assert said == [0, 1, 1, 1] and len(set(first)) == 3
    assert go(store) == (first, [3])
    lines = store.read_text().splitlines(keepends=True)
    cut = "".join(lines[:2]) + lines[2][:20]  # killed in the middle of a line
    store.write_bytes(b"\xff\n" + cut.encode())
    assert go(store) == (first, [2, 1])
    assert go(store) == (first, [3])
    monkeypatch.setattr(measurements, "NUMERICS", measurements.NUMERICS + 1)
    assert go(store)[1][0] == 0
