"""The arms of named experiments, and how runs differ from them.

Arms are cached in a lock file because composing an experiment takes a tenth of a second.
"""

import hashlib
import json
from dataclasses import astuple
from pathlib import Path

from ln_repro.claims.evidence import Arm, ArmOf, variation
from ln_repro.experiment import compose
from ln_repro.experiment.settings import Experiment
from ln_repro.experiment.validation import NOT_IN_ID
from ln_repro.records.archive import Run
from ln_repro.system.files import Json, read_json, write_atomically

LOCK = "experiments.lock.json"
"""File beside the folder of records: the `Arm` of each experiment, and a digest of the files they depend on."""


class Arms:
    """Look up arms by experiment name: in the lock file if it is up to date, otherwise by composing the experiment.

    The lock file is beside the folder ``records``.
    """

    def __init__(self, records: Path) -> None:
        self.lock = records.parent / LOCK
        digest = hashlib.sha256()
        for path in sorted(compose.sources()):
            digest.update(f"{path.name}\n".encode() + path.read_bytes())
        self.digest = digest.hexdigest()
        locked = read_json(self.lock, dict) or {}
        self.known: dict[str, Arm | None] = {}
        if locked.get("sources") == self.digest:
            self.known = {exp: arm and Arm(*arm) for exp, arm in locked["experiments"].items()}

    def __call__(self, exp: str) -> Arm | None:
        """Return the arm of a named experiment; None if there is no such name."""
        if exp not in self.known:
            experiment = compose.registered_experiment(exp)
            self.known[exp] = Arm.of(experiment) if experiment else None
        return self.known[exp]

    def save(self) -> None:
        """Write the lock file with every arm that has been looked up."""
        arms = {exp: arm and astuple(arm) for exp, arm in sorted(self.known.items())}
        lines = ",\n".join(f"  {json.dumps(exp)}: {json.dumps(arm)}" for exp, arm in arms.items())
        write_atomically(self.lock, f'{{\n "sources": "{self.digest}",\n "experiments": {{\n{lines}\n }}\n}}\n')


def deviates(run: Run, arm_named: ArmOf) -> bool:
    """Return whether a run has other text, or differs from its experiment in more than seed, rate and variations."""
    arm = arm_named(run.record.exp)
    return arm is None or not run.record.data.published or run.arm_key != arm.key


def own_settings(experiment: Experiment, arm_named: ArmOf) -> list[str]:
    """Return the settings, except the seed, in which a run differs from the experiment that it is named after."""
    arm = arm_named(experiment.exp)
    if arm is None:
        return ["no experiment of that name"]
    rate = [f"lr={experiment.lr:g}"] if experiment.lr != arm.lr else []
    if experiment.arm_key() == arm.key:
        return rate + list(filter(None, [variation(experiment, arm)]))
    original = compose.registered_experiment(experiment.exp)
    values, before = _flat(experiment), _flat(original) if original else {}
    keys = sorted({*values, *before} - {"norm_file.name", "norm_file.text"})  # norm is that name; the text, a file
    changed = [key for key in keys if values.get(key) != before.get(key)]
    return rate + [f"{key}={'null' if values.get(key) is None else values[key]}" for key in changed]


def _flat(experiment: Experiment) -> Json:
    """Return the settings that can change a result, except seed and rate, by their dotted names."""
    left_out = experiment.marked(NOT_IN_ID) | dict.fromkeys(("seed", "lr", "precision", "start"), True)
    return compose.flat({**experiment.model_dump(mode="json", exclude=left_out), "data": experiment.data.recipe()})
