"""The records that tables, figures and verdicts are made of."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ln_repro.errors import UserError
from ln_repro.experiment.divergence import NOT_FINITE
from ln_repro.experiment.settings import Experiment
from ln_repro.records.events import Event
from ln_repro.records.integrity import CHECKSUMS, Unsound, checksums, sound
from ln_repro.records.record import Record, accuracy, experiment_of, started
from ln_repro.system.paths import CHECKOUT


@dataclass(frozen=True)
class Run:
    """One record, and its events if they are there."""

    record: Record
    events: Sequence[Event] = ()

    @cached_property
    def experiment(self) -> Experiment:
        """Return the settings that it was run with."""
        return experiment_of(self.record)

    @property
    def seed(self) -> int:
        """Return its seed."""
        return int(self.record["axes"]["seed"])

    @property
    def diverged(self) -> bool:
        """Whether it ended by numbers that are not finite, or was stopped early by the rule that watched it."""
        return bool(self.record["status"] == "diverged")

    @property
    def finite(self) -> bool:
        """Whether it ended with a model: one whose numbers are not finite has failed, whatever it was before."""
        return not self.diverged or (self.record.get("divergence") or {}).get("rule") != NOT_FINITE

    @property
    def bleu(self) -> float:
        """BLEU at the epoch of lowest validation loss, as the paper scores; 0 for a run that never got so far, or that
        ended without a model."""
        best = self.record["bleu"]["test_tokenised"]
        return float(best["score"]) if best and self.finite else 0.0

    @property
    def loss(self) -> float:
        """Lowest validation loss, bits per token; infinite where there is none, or no model in the end."""
        return min(self._losses, default=(math.inf, math.inf))[0]

    @property
    def nll(self) -> float:
        """Validation loss without label smoothing, where the smoothed one is lowest."""
        return min(self._losses, default=(math.inf, math.inf))[1]

    @property
    def _losses(self) -> list[tuple[float, float]]:
        rows = [(row["valid_loss"], row["valid_nll_loss"]) for row in self.record["epochs"] if self.finite]
        return [row for row in rows if None not in row]

    @property
    def final_loss(self) -> float:
        """Validation loss after the last epoch; infinite where there is none."""
        return self._losses[-1][0] if self._losses else math.inf

    @property
    def final_nll(self) -> float:
        """The same without label smoothing."""
        return self._losses[-1][1] if self._losses else math.inf

    @property
    def accuracy(self) -> float:
        """Share of right answers after the last epoch; 0 for a run that never got so far."""
        return accuracy(self.record) or 0.0

    @property
    def started(self) -> int | None:
        """Updates of pre-training that it began with; None where there was none."""
        return started(self.record)

    @property
    def size(self) -> tuple[int, ...]:
        """Return layers, width and feed-forward width."""
        model = self.record["experiment"]["model"]
        return model["layers"], model["width"], model["ffn"]

    @property
    def epochs(self) -> float:
        """Return the epochs that it was given; infinite where updates were counted instead."""
        return self.record["experiment"]["train"]["max_epoch"] or math.inf

    def curve(self, name: str) -> dict[int, float]:
        """Return a column of the record's epochs."""
        return {row["epoch"]: float(row[name]) for row in self.record["epochs"] if row.get(name) is not None}


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
    return CHECKOUT / "results" / "records"


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
