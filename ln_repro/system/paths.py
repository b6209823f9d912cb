"""The folders of the package, its checkout, runs and data."""

import os
from pathlib import Path

from ln_repro.errors import UserError

PACKAGE = Path(__file__).resolve().parents[1]
CHECKOUT = PACKAGE.parent
"""The folder with configuration and committed results; for an installed wheel, ``site-packages``."""


def expanded(path: str | Path) -> Path:
    """Return a path with the home folder for a ``~`` at its beginning, which the shell leaves after ``key=``."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 (pathlib's raises an error if there is no such user)


def runs_folder() -> Path:
    """Return the folder of runs, or raise `UserError` if LN_REPRO_RUNS is empty or a file."""
    return _folder("LN_REPRO_RUNS", "./runs")


def data_folder() -> Path:
    """Return the folder of corpora, or raise `UserError` if LN_REPRO_DATA is empty or a file."""
    return _folder("LN_REPRO_DATA", "./data")


def _folder(variable: str, default: str) -> Path:
    path = os.environ.get(variable, default)
    if problem := not_a_folder(path):
        raise UserError(f"{variable}: {problem}; name a folder, or unset it for {default}")
    return expanded(path)


def not_a_folder(path: str) -> str | None:
    """Return why ``path``, which need not exist, cannot be a folder; None if it can."""
    if not path.strip():
        return "is empty"
    for place in (expanded(path), *expanded(path).parents):
        if place.is_file():
            return f"{place} is a file"
        if place.is_symlink() and not place.exists():
            return f"{place} is a link to {place.readlink()}, which does not exist"
    return None
