"""Keys and random numbers of units."""

import torch

from ln_repro.theory.unit import Unit


def test_units_draw_their_own_numbers_again_and_again() -> None:
    def draw(unit: Unit) -> torch.Tensor:
        return torch.randn(4, generator=unit.generator())

    unit = Unit.of("relu", 1, d=64)
    assert draw(unit).equal(draw(unit))
    assert not any(draw(unit).equal(draw(other)) for other in (Unit.of("relu", 2, d=64), Unit.of("relu", 1, d=65)))
