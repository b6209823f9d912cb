"""Keys and random numbers of units."""

import torch

from ln_repro.theory.unit import Unit


def test_the_order_of_settings_does_not_matter() -> None:
    unit = Unit.of("hidden_norms", 3, norm="postln", d=64)
    assert unit == Unit.of("hidden_norms", 3, d=64, norm="postln") and hash(unit)
    assert unit.key == "hidden_norms d=64 norm=postln seed=3"
    assert unit["d"] == 64


def test_units_draw_their_own_numbers_again_and_again() -> None:
    def draw(unit: Unit) -> torch.Tensor:
        return torch.randn(4, generator=unit.generator())

    unit = Unit.of("relu", 1, d=64)
    assert draw(unit).equal(draw(unit))
    assert not any(draw(unit).equal(draw(other)) for other in (Unit.of("relu", 2, d=64), Unit.of("relu", 1, d=65)))
