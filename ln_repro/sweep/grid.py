"""A grid: arms, the corpus they run on, seeds, and settings that all or some of its cells share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ln_repro.errors import UserError

GIVE_UP = "stop_on_divergence"


@dataclass(frozen=True)
class Cell:
    """One experiment of a grid, as the overrides that describe it."""

    exp: str
    seed: int
    settings: tuple[str, ...] = ()

    @property
    def overrides(self) -> list[str]:
        """Return what follows `ln-repro run`. A sweep gives up lost runs unless told otherwise."""
        given = any(setting.startswith(f"{GIVE_UP}=") for setting in self.settings)
        return [f"exp={self.exp}", f"seed={self.seed}", *([] if given else [f"{GIVE_UP}=true"]), *self.settings]


@dataclass(frozen=True)
class Asked:
    """The words of a `sweep` command: which grid, where, how often, and settings for every cell."""

    grid: str
    corpus: str
    seeds: int
    settings: tuple[str, ...]


def words(given: Sequence[str]) -> Asked:
    """Read ``grid=NAME corpus=NAME seeds=N launcher=local key=value ...``.

    Raises:
        UserError: no grid, or a word that is none of these.
    """
    own = {"grid": "", "corpus": "toy", "seeds": "1", "launcher": "local"}
    settings = []
    for word in given:
        key, equals, value = word.partition("=")
        if not equals:
            raise UserError(f"sweep: {word!r} is not key=value")
        if key in own:
            own[key] = value
        else:
            settings.append(word)
    if not own["grid"]:
        raise UserError("grid: which grid? Give grid=NAME (design, section3_2, section4, init)")
    if not own["seeds"].isdecimal() or not int(own["seeds"]):
        raise UserError(f"seeds: how many, at least 1; got {own['seeds']!r}")
    if own["launcher"] != "local":
        raise UserError(f"launcher: only local so far, got {own['launcher']!r}")
    return Asked(own["grid"], own["corpus"], int(own["seeds"]), tuple(settings))


def cells(
    grid: Mapping[str, Any], corpus: str, seeds: int, settings: Sequence[str], known: Sequence[str]
) -> list[Cell]:
    """Return the cells of a grid, all arms of a seed before the next seed.

    Args:
        grid: ``arms`` and, where some cells differ by more, a list of ``overrides``, each a list of settings.
        corpus: the first part of the experiments' names.
        seeds: how many, from 1.
        settings: given to every cell.
        known: the experiments that exist.

    Raises:
        UserError: an arm does not exist on this corpus.
    """
    if missing := [arm for arm in grid["arms"] if f"{corpus}_{arm}" not in known]:
        raise UserError(f"grid: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not defined for {corpus}")
    return [
        Cell(f"{corpus}_{arm}", seed, (*shared, *settings))
        for seed in range(1, seeds + 1)
        for shared in grid.get("overrides", [[]])
        for arm in grid["arms"]
    ]
