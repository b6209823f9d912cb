"""One measurement: named, seeded, so that it can be cached and repeated."""

import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

Measurement = dict[str, Any]
"""What a unit measured: JSON-able, floats and lists of floats by name."""


@dataclass(frozen=True)
class Unit:
    """One call of a measuring function.

    Args:
        what: name of the function.
        settings: its settings by name (d, d_ff, layers, norm, positions, ...), sorted; see `Unit.of`.
        seed: which of the repetitions.
    """

    what: str
    settings: tuple[tuple[str, Any], ...]
    seed: int

    @classmethod
    def of(cls, what: str, seed: int, **settings: Any) -> "Unit":
        """Build a unit from settings by name."""
        return cls(what, tuple(sorted(settings.items())), seed)

    def __getitem__(self, name: str) -> Any:
        return dict(self.settings)[name]

    @property
    def key(self) -> str:
        """Return the unit as text, the same in every process."""
        return " ".join([self.what, *(f"{name}={value}" for name, value in self.settings), f"seed={self.seed}"])

    def generator(self) -> torch.Generator:
        """Start the unit's own stream of random numbers: units that differ in anything are independent draws."""
        return torch.Generator().manual_seed(zlib.crc32(self.key.encode()))


Measure = Callable[[Unit], Measurement]
Measured = Sequence[tuple[Unit, Measurement]]


def among(unit: Unit, what: Collection[str], where: Mapping[str, Any]) -> bool:
    """Tell whether a unit is one of the measurements ``what``, with the settings ``where``."""
    return unit.what in what and where.items() <= dict(unit.settings).items()


def grouped(
    measured: Measured, what: Collection[str], by: Sequence[str] = (), where: Mapping[str, Any] = MappingProxyType({})
) -> dict[tuple[Any, ...], Measured]:
    """Gather what was measured ``where`` settings have these values, by the values of the settings ``by``."""
    groups: dict[tuple[Any, ...], list[tuple[Unit, Measurement]]] = {}
    for unit, measurement in measured:
        if among(unit, what, where):
            groups.setdefault(tuple(unit[name] for name in by), []).append((unit, measurement))
    return dict(groups)
