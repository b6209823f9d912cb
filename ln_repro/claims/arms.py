"""The arms of named experiments, cached in a lock file because composing one takes a tenth of a second."""

import hashlib
import json
from dataclasses import astuple
from pathlib import Path

from ln_repro.claims.evidence import Arm
from ln_repro.experiment.compose import named, sources
from ln_repro.system.files import read_json, write_atomically

LOCK = "experiments.lock.json"
"""File beside the folder of records: the `Arm` of each experiment, and a digest of the files they depend on."""


class Arms:
    """Look up arms by experiment name: in the lock file if it is up to date, otherwise by composing the experiment.

    The lock file is beside the folder ``records``.
    """

    def __init__(self, records: Path) -> None:
        self.lock = records.parent / LOCK
        digest = hashlib.sha256()
        for path in sorted(sources()):
            digest.update(f"{path.name}\n".encode() + path.read_bytes())
        self.digest = digest.hexdigest()
        locked = read_json(self.lock, dict) or {}
        self.known: dict[str, Arm | None] = {}
        if locked.get("sources") == self.digest:
            self.known = {exp: arm and Arm(*arm) for exp, arm in locked["experiments"].items()}

    def __call__(self, exp: str) -> Arm | None:
        """Return the arm of a named experiment; None if there is no such name."""
        if exp not in self.known:
            experiment = named(exp)
            self.known[exp] = Arm.of(experiment) if experiment else None
        return self.known[exp]

    def save(self) -> None:
        """Write the lock file with every arm that has been looked up."""
        arms = {exp: arm and astuple(arm) for exp, arm in sorted(self.known.items())}
        lines = ",\n".join(f"  {json.dumps(exp)}: {json.dumps(arm)}" for exp, arm in arms.items())
        text = f'{{\n "sources": "{self.digest}",\n "experiments": {{\n{lines}\n }}\n}}\n'
        if not self.lock.is_file() or self.lock.read_text() != text:
            write_atomically(self.lock, text)
