"""The arms of named experiments. Composing one takes a tenth of a second, so they are kept in a lock file."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from ln_repro.claims.evidence import Arm
from ln_repro.experiment.settings import Experiment
from ln_repro.system.files import write_atomically

LOCK = "experiments.lock.json"
"""Lies beside the folder of records: by experiment, its `Arm`; and a digest of what they were composed from."""


class Arms:
    """Arms by the name of an experiment: from the lock file if it is up to date, else composed.

    Args:
        compose: returns a named experiment; None if there is no such name.
        sources: files that an experiment is composed from, and the code that gives settings their defaults.
        lock: the lock file; it may be absent.
    """

    def __init__(self, compose: Callable[[str], Experiment | None], sources: list[Path], lock: Path) -> None:
        self.compose = compose
        self.lock = lock
        self.digest = _digest(sources)
        kept = json.loads(lock.read_text()) if lock.is_file() else {}
        self.known: dict[str, Arm | None] = {}
        if kept.get("sources") == self.digest:
            self.known = {exp: arm and Arm(*arm) for exp, arm in kept["experiments"].items()}

    def __call__(self, exp: str) -> Arm | None:
        """Return the arm of a named experiment; None if there is no such name."""
        if exp not in self.known:
            found = self.compose(exp)
            self.known[exp] = Arm(found.arm_key(), found.lr, found.init) if found else None
        return self.known[exp]

    def save(self) -> None:
        """Write the lock file, with every arm that was asked for."""
        arms = {exp: arm and [arm.key, arm.lr, arm.init] for exp, arm in sorted(self.known.items())}
        lines = ",\n".join(f"  {json.dumps(exp)}: {json.dumps(arm)}" for exp, arm in arms.items())
        text = f'{{\n "sources": "{self.digest}",\n "experiments": {{\n{lines}\n }}\n}}\n'
        if not self.lock.is_file() or self.lock.read_text() != text:
            write_atomically(self.lock, text)


def _digest(sources: list[Path]) -> str:
    """Return a checksum over the names and contents of files."""
    total = hashlib.sha256()
    for path in sorted(sources):
        total.update(f"{path.name}\n".encode() + path.read_bytes())
    return total.hexdigest()
