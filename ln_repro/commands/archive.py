"""What the commands that read archived records share."""

import sys
from collections.abc import Sequence
from pathlib import Path

from ln_repro.claims.arms import LOCK, Arms
from ln_repro.experiment.compose import named, sources


def arms_beside(folder: Path) -> Arms:
    """Return the arms of the named experiments, with the lock file beside the records as cache."""
    return Arms(named, sources(), folder.parent / LOCK)


def complaints(problems: Sequence[str]) -> int:
    """Print which records were left out; return the exit code."""
    for problem in problems:
        print(f"ln-repro: {problem}", file=sys.stderr)
    return 1 if problems else 0
