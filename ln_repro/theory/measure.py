"""Run measurements in several processes and store each result on disk as soon as it is available."""

import json
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

import torch

from ln_repro.records.events import end_of_torn_line
from ln_repro.system.pool import apply
from ln_repro.theory.plan import MEASURES
from ln_repro.theory.real import initial
from ln_repro.theory.unit import Measured, Measurement, Unit
from ln_repro.version import NUMERICS


def measure(units: Sequence[Unit], kept: Path, progress: Callable[[int], None]) -> Measured:
    """Return the measurement of every unit, reusing those in the file ``kept``.

    The file has one JSON object per line, and results are appended to it; damaged lines and those of other versions of
    the numerics are ignored. All cores are used. ``progress`` is called with the number of units that are done
    since its last call.
    """
    results = read(kept)
    missing = [unit for unit in units if unit.key not in results]
    groups = by_start(missing)
    with kept.open("a+b") as file:
        progress(len(units) - len(missing))
        file.write(end_of_torn_line(file))
        for unit, result in zip(chain(*groups), chain.from_iterable(apply(run, groups, several=True)), strict=True):
            results[unit.key] = result
            line = json.dumps({"unit": unit.key, "numerics": NUMERICS, "found": result}) + "\n"
            file.write(line.encode())
            file.flush()
            progress(1)
    return [(unit, results[unit.key]) for unit in units]


def by_start(units: Sequence[Unit]) -> list[list[Unit]]:
    """Return units in groups whose Transformers start from the same parameters; others are alone."""
    groups: dict[object, list[Unit]] = {}
    for unit in units:
        shared = {name: value for name, value in unit.settings.items() if name not in ("norm", "batches")}
        start = (unit.seed, *shared.items()) if unit.what.startswith("real") else unit.key
        groups.setdefault(start, []).append(unit)
    return [*groups.values()]


def run(units: Sequence[Unit]) -> list[Measurement]:
    """Return the measurements of a group of units, computed by one thread."""
    torch.set_num_threads(1)
    try:
        return [MEASURES[unit.what](unit) for unit in units]
    finally:
        initial.cache_clear()


def instructions() -> str:
    """Return the CPU instruction set that torch uses."""
    return torch.backends.cpu.get_cpu_capability()


def read(kept: Path) -> dict[str, Measurement]:
    """Return the stored measurements by unit."""
    results: dict[str, Measurement] = {}
    for line in kept.read_text(encoding="utf-8").splitlines() if kept.exists() else []:
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # cut off by a crash
        if isinstance(entry, dict) and entry.get("numerics") == NUMERICS:
            results[entry["unit"]] = entry["found"]
    return results
