"""The plan of measurements, their independent random numbers, and the file that keeps their results."""

from pathlib import Path

import pytest
import torch

from ln_repro.claims.rules.th import STATEMENTS
from ln_repro.theory import measure as module
from ln_repro.theory.checks import CHECKS
from ln_repro.theory.measure import measure
from ln_repro.theory.plan import FULL, QUICK, units
from ln_repro.theory.unit import Unit, grouped, select

UNITS = [Unit.of("relu", seed, d=8, sigma=1.0, numbers=64) for seed in range(1, 4)]


def test_the_full_plan_has_enough_seeds_for_every_check() -> None:
    planned = [(unit, {}) for unit in units(FULL, list(STATEMENTS))]
    for check in CHECKS:
        groups = grouped(select(planned, check.what, check.where), check.by)
        assert groups, check
        for group in groups.values():
            assert len({unit.seed for unit, _ in group}) >= max(check.seeds, 10)


def test_a_model_whose_layers_are_all_measured_is_not_measured_again() -> None:
    """TH-6 takes the depth of 6 from what TH-8 needs."""
    planned = units(QUICK, ["TH-6"])
    depths = {(unit.what, unit["layers"]) for unit in planned if unit.what.startswith("real")}
    assert depths == {("real_gradients", 6), ("real_last_gradient", 14)}


def test_units_draw_independent_but_repeatable_numbers() -> None:
    one, same, seed, setting = (
        torch.randn(4, generator=Unit.of("relu", seed, d=d).generator())
        for seed, d in ((1, 64), (1, 64), (2, 64), (1, 65))
    )
    assert one.equal(same) and not one.equal(seed) and not one.equal(setting)


def test_transformers_that_start_from_the_same_parameters_are_measured_together() -> None:
    planned = units(QUICK, list(STATEMENTS))
    groups = module.by_start(planned)
    assert sorted(unit.key for group in groups for unit in group) == sorted(unit.key for unit in planned)
    together = [{(unit.what, unit["norm"]) for unit in group} for group in groups if len(group) > 1]
    six = {(what, norm) for what in ("real_gradients", "real_hidden_states") for norm in ("postln", "preln")}
    assert together == 10 * [{("real_last_gradient", "postln"), ("real_last_gradient", "preln")}] + 10 * [
        six | {("real_uncrossed_gradients", "postln")}
    ]
    assert all(len({(unit.seed, unit["layers"]) for unit in group}) == 1 for group in groups if len(group) > 1)


def go(kept: Path) -> tuple[list[float], list[int]]:
    """Return what was measured, and the progress reported."""
    said: list[int] = []
    found = measure(UNITS, kept, said.append)
    assert [unit for unit, _ in found] == UNITS
    return [measurement["ratio"] for _, measurement in found], said


@pytest.mark.slow
def test_stored_measurements_are_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "measurements.jsonl"
    first, said = go(kept)
    assert said == [0, 1, 1, 1] and len(set(first)) == 3
    assert go(kept) == (first, [3])
    lines = kept.read_text().splitlines(keepends=True)
    kept.write_text("".join(lines[:2]) + lines[2][:20])  # killed in the middle of a line
    assert go(kept) == (first, [2, 1])
    assert go(kept) == (first, [3])
    monkeypatch.setattr(module, "NUMERICS", module.NUMERICS + 1)
    assert go(kept)[1][0] == 0
