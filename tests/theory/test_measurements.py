"""The plan of measurements, their independent random numbers, and the file that keeps their results."""

from pathlib import Path

import pytest
import torch

from ln_repro.claims.rules.th import STATEMENTS
from ln_repro.theory import measurements
from ln_repro.theory.checks import CHECKS
from ln_repro.theory.measurements import FULL, measure, units
from ln_repro.theory.unit import Unit, grouped, select

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
