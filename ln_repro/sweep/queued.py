"""The files of queued runs, each with one composed experiment, so that later edits of YAML files do not affect it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ln_repro.errors import UserError
from ln_repro.experiment.settings import Experiment, build
from ln_repro.records import provenance
from ln_repro.records.run_dir import write_json
from ln_repro.sweep.plan import PlannedRun
from ln_repro.system.files import read_json


def write(plan: Iterable[PlannedRun], folder: Path) -> list[Path]:
    """Write the runs to ``folder`` with the version of the code; return their files in order."""
    folder.mkdir(parents=True, exist_ok=True)
    code, files = provenance.code(), []
    for index, planned in enumerate(plan):
        files.append(folder / f"{index}-{planned.name}.json")
        write_json(files[-1], {"experiment": planned.experiment.model_dump(mode="json"), "code": code})
    return files


def listed(folder: Path) -> dict[int, Path]:
    """Return the files in ``folder`` by their position in the plan."""
    return {int(path.name.partition("-")[0]): path for path in folder.glob("*-*.json")}


def name(file: Path) -> str:
    """Return the name of the run's directory that belongs to a file."""
    return file.stem.partition("-")[2]


def read(file: Path) -> tuple[Experiment, dict[str, Any]]:
    """Return the experiment in a file and the version of its code, or raise `UserError` if it is gone or damaged."""
    content = read_json(file, dict)
    if content is None or not content.keys() >= {"experiment", "code"}:
        raise UserError(f"{file}: the queued experiment does not exist any more; start the sweep again")
    return build(content["experiment"]), content["code"]
