"""Where runs and data lie unless a setting says otherwise: the environment's word, or folders of where we are."""

import os
from pathlib import Path

from ln_repro.errors import UserError


def runs_folder() -> Path:
    """Return the runs folder.

    Raises:
        UserError: its variable is set to nothing.
    """
    return _folder("LN_REPRO_RUNS", "./runs")


def data_folder() -> Path:
    """Return the folder of corpora.

    Raises:
        UserError: its variable is set to nothing.
    """
    return _folder("LN_REPRO_DATA", "./data")


def _folder(variable: str, usual: str) -> Path:
    given = os.environ.get(variable, usual)
    if not given.strip():
        raise UserError(f"{variable}: is empty; name a folder, or unset it for {usual}")
    return Path(given)
