"""Units of measurement with a name, settings and a seed, so that they can be stored and repeated."""

import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from ln_repro.system.files import Json

Measurement = Json  # the result of a unit: floats and lists of floats by name, for JSON


@dataclass(frozen=True)
class Unit:
    """One call of a measuring function."""

    what: str  # name of the function
    settings: Json  # sorted by name
    seed: int

    @classmethod
    def of(cls, what: str, seed: int, **settings: Any) -> "Unit":
        return cls(what, dict(sorted(settings.items())), seed)

    def __getitem__(self, name: str) -> Any:
        return self.settings[name]

    @property
    def key(self) -> str:
        return " ".join([self.what, *(f"{name}={value}" for name, value in self.settings.items()), f"seed={self.seed}"])

    def matches(self, what: Collection[str], where: Json) -> bool:
        """Return whether this is one of the measurements ``what`` with the settings ``where``."""
        return self.what in what and where.items() <= self.settings.items()

    def generator(self) -> torch.Generator:
        """Return the unit's random generator; units that differ in any setting draw independently."""
        return torch.Generator().manual_seed(zlib.crc32(self.key.encode()))


Measure = Callable[[Unit], Measurement]
Measured = list[tuple[Unit, Measurement]]
Key = TypeVar("Key")


def select(measured: Measured, what: Collection[str], where: Json) -> Measured:
    """Return the measurements ``what`` with the settings ``where``."""
    return [(unit, result) for unit, result in measured if unit.matches(what, where)]


def grouped(measured: Measured, key: Callable[[Unit], Key]) -> dict[Key, Measured]:
    """Return measurements grouped by a property of their units."""
    groups: dict[Key, Measured] = {}
    for unit, result in measured:
        groups.setdefault(key(unit), []).append((unit, result))
    return groups
