"""The records that tables, figures and verdicts are made of."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ln_repro.claims.evidence import Run
from ln_repro.errors import UserError
from ln_repro.record import Record
from ln_repro.report.integrity import CHECKSUMS, Unsound, checksums, sound


@dataclass(frozen=True)
class Kept:
    """A folder of records: those that count, ordered by experiment and seed, and what is wrong with the others."""

    runs: Sequence[Run]
    problems: Sequence[str]
    corpora: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By fingerprint: ``name``, ``unigram_bits`` and ``source_blind_bits`` (`corpus.ngram.entropies`)."""

    @property
    def records(self) -> list[Record]:
        """Return the records alone."""
        return [run.record for run in self.runs]


def records_folder() -> Path:
    """Return where a checkout keeps its committed records."""
    return Path(__file__).resolve().parents[2] / "results" / "records"


def ids(folder: Path) -> frozenset[str]:
    """Return the ids of the records in ``folder``.

    Raises:
        UserError: there is no such folder.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder of records (they are kept in a checkout)")
    return frozenset(path.stem for path in folder.rglob("*.json"))


def read_kept(folder: Path) -> Kept:
    """Return the records in ``folder`` and below; one that cannot be trusted is left out and named.

    Raises:
        UserError: there is no such folder.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder of records (they are kept in a checkout, or give --records DIR)")
    runs, problems = [], []
    for place in sorted({path.parent for path in (*folder.rglob("*.json"), *folder.rglob(CHECKSUMS))}):
        kept = checksums(place)
        for path in sorted(place.glob("*.json")):
            try:
                runs.append(Run(*sound(path, kept)))
            except Unsound as error:
                problems.append(f"{path}: {error}; left out")
        gone = sorted(name for name in kept or {} if not (place / name).exists())
        problems += [f"{place / name}: is gone; bring it back, or take its line out of {CHECKSUMS}" for name in gone]
    runs.sort(key=order)
    return Kept(runs, problems, corpora(folder, runs))


def corpora(folder: Path, runs: Sequence[Run]) -> dict[str, dict[str, Any]]:
    """Return the entropies of the corpora by fingerprint: the records' own, or what was collected for old ones."""
    found = read_corpora(folder)
    for data in (run.record["data"] for run in runs):
        own = {key: data[key] for key in ("unigram_bits", "source_blind_bits") if data.get(key) is not None}
        if own:
            found[data["fingerprint"]] = {**found.get(data["fingerprint"], {}), "name": data["name"], **own}
    return found


def corpora_file(folder: Path) -> Path:
    """Return where the entropies of corpora are kept, beside a folder of records."""
    return folder.parent / "corpora.json"


def read_corpora(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what was collected on the corpora of the records in ``folder``; nothing if there is no such file."""
    kept = corpora_file(folder)
    return dict(json.loads(kept.read_text())) if kept.exists() else {}


def find(folder: Path, id: str) -> Path | None:
    """Return the file of the record with this id; None if there is none."""
    return next(folder.rglob(f"{id}.json"), None)


def order(run: Run) -> tuple[str, int, str]:
    """Sort by experiment, seed and id."""
    return run.record["exp"], run.record["axes"]["seed"], run.record["id"]


def read_theory(folder: Path) -> list[dict[str, Any]]:
    """Return the findings of the theory that are kept beside a folder of records; none if there is no such file."""
    kept = folder.parent / "theory.json"
    return list(json.loads(kept.read_text())["findings"]) if kept.exists() else []
