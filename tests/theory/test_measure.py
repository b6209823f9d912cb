"""Measurements are made once, and survive whatever ends the command."""

from pathlib import Path

import pytest

from ln_repro.theory import measure as module
from ln_repro.theory.measure import measure
from ln_repro.theory.unit import Unit

pytestmark = pytest.mark.slow

UNITS = [Unit.of("relu", seed, d=8, sigma=1.0, numbers=64) for seed in range(1, 4)]


def go(kept: Path) -> tuple[list[float], list[tuple[int, int]]]:
    """Return what was measured, and the progress reported."""
    said: list[tuple[int, int]] = []
    found = measure(UNITS, kept, 2, lambda done, total: said.append((done, total)))
    assert [unit for unit, _ in found] == UNITS
    return [measurement["ratio"] for _, measurement in found], said


def test_what_is_kept_is_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "runs" / "measurements.jsonl"
    first, said = go(kept)
    assert said == [(0, 3), (1, 3), (2, 3), (3, 3)] and len(set(first)) == 3
    assert go(kept) == (first, [(3, 3)])
    lines = kept.read_text().splitlines(keepends=True)
    kept.write_text("".join(lines[:2]) + lines[2][:20])  # killed in the middle of a line
    assert go(kept) == (first, [(2, 3), (3, 3)])
    assert go(kept) == (first, [(3, 3)])
    monkeypatch.setattr(module, "NUMERICS", module.NUMERICS + 1)
    assert go(kept)[1][0] == (0, 3)
