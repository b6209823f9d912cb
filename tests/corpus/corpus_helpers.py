"""Settings and text files."""

from pathlib import Path
from typing import Any

from ln_repro.experiment.data import Data

MERGES = {"toy": 0, "wmt14": 200}


def settings(name: str, **changes: Any) -> Data:
    """Return the settings of a corpus with few merges."""
    return Data(**{"name": name, "bpe_merges": MERGES.get(name, 50), **changes})


def write(path: Path, *lines: str) -> Path:
    """Write a text file of lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
