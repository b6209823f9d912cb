"""The archive of records, from which tables, figures and verdicts are computed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ln_repro.errors import LnReproError, UserError
from ln_repro.experiment.divergence import NOT_FINITE
from ln_repro.experiment.settings import Experiment
from ln_repro.records.events import Event
from ln_repro.records.integrity import CHECKSUMS, DAMAGE, checksums, sound
from ln_repro.records.record import Record, accuracy, experiment_of
from ln_repro.system.files import read_json, warn
from ln_repro.system.paths import CHECKOUT

Costs = Mapping[str, Mapping[str, Any]]
"""The rows of the benchmark by norm placement: ``ratio`` of speeds, and of the bytes ``saved``, over Pre-LN's."""


@dataclass(frozen=True)
class Run:
    """A record with its events, if they are archived."""

    record: Record
    events: Sequence[Event] = ()

    @cached_property
    def experiment(self) -> Experiment:
        return experiment_of(self.record)

    @property
    def seed(self) -> int:
        return int(self.record["axes"]["seed"])

    @property
    def published(self) -> bool:
        """Whether it was run on the published text of its corpus, as all runs whose records do not say so."""
        return bool(self.record["data"].get("published", True))

    @property
    def diverged(self) -> bool:
        """Whether the run ended with a number that is not finite, or was stopped early by the divergence rule."""
        return bool(self.record["status"] == "diverged")

    @property
    def finite(self) -> bool:
        """Whether all numbers were finite until the end."""
        return not self.diverged or (self.record.get("divergence") or {}).get("rule") != NOT_FINITE

    @property
    def bleu(self) -> float:
        """BLEU at the epoch with the lowest validation loss, as in the paper; 0 without one, or if not `finite`."""
        best = self.record["bleu"]["test_tokenised"]
        return float(best["score"]) if best and self.finite else 0.0

    @property
    def loss(self) -> float:
        """Lowest validation loss in bits per token; infinite if there is none or the run is not finite."""
        return min(self._losses, default=(math.inf, math.inf))[0]

    @property
    def nll(self) -> float:
        """Validation loss without label smoothing, at the epoch with the lowest smoothed loss."""
        return min(self._losses, default=(math.inf, math.inf))[1]

    @property
    def _losses(self) -> list[tuple[float, float]]:
        rows = [(row["valid_loss"], row["valid_nll_loss"]) for row in self.record["epochs"] if self.finite]
        return [row for row in rows if None not in row]

    @property
    def final_loss(self) -> float:
        """Validation loss after the last epoch; infinite without one."""
        return self._losses[-1][0] if self._losses else math.inf

    @property
    def final_nll(self) -> float:
        """Validation loss without label smoothing after the last epoch; infinite without one."""
        return self._losses[-1][1] if self._losses else math.inf

    @property
    def accuracy(self) -> float:
        """Accuracy after the last epoch; 0 without one."""
        return accuracy(self.record) or 0.0

    @property
    def size(self) -> tuple[int, ...]:
        """Number of layers, width and feed-forward width."""
        model = self.record["experiment"]["model"]
        return model["layers"], model["width"], model["ffn"]

    @property
    def epochs(self) -> float:
        """The maximum number of epochs; infinite if only the number of updates was limited."""
        return self.record["experiment"]["train"]["max_epoch"] or math.inf

    def curve(self, name: str, by: str = "epoch") -> dict[int, float]:
        """Return a field of the record's epochs, by epoch or by ``"update"``."""
        return {row[by]: float(row[name]) for row in self.record["epochs"] if row.get(name) is not None}


@dataclass(frozen=True)
class Kept:
    """A folder of records: the valid ones, sorted by experiment, seed and id, and the problems of the others."""

    runs: Sequence[Run]
    problems: Sequence[str]
    corpora: Mapping[str, Mapping[str, float]]
    """``unigram_bits`` and ``source_blind_bits`` of corpora (`corpus.ngram.entropies`), by fingerprint."""
    costs: Costs

    @property
    def records(self) -> list[Record]:
        """The records without events."""
        return [run.record for run in self.runs]


FINDING = {"id", "statement", "paper", "quantity", "interval", "verdict", "rule", "place", "seeds"}
"""The keys of a finding of `ln-repro theory` that its claim is made from."""


def records_folder() -> Path:
    """Return the folder of committed records in a checkout."""
    return CHECKOUT / "results" / "records"


def ids(folder: Path) -> frozenset[str]:
    """Return the ids of the records in ``folder``, or raise `UserError` if it does not exist."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder of records; use a checkout of the repository")
    return frozenset(path.stem for path in folder.rglob("*.json"))


def read_kept(folder: Path) -> Kept:
    """Return the records in ``folder`` and its subfolders; invalid ones are left out and reported."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder of records; use a checkout of the repository, or --records DIR")
    runs, problems = [], []
    for place in sorted({path.parent for path in (*folder.rglob("*.json"), *folder.rglob(CHECKSUMS))}):
        kept = None
        try:
            kept = checksums(place)
        except (LnReproError, OSError) as error:
            problems.append(str(error))
        for path in sorted(place.glob("*.json")):
            try:
                runs.append(Run(*sound(path, kept)))
            except LnReproError as error:
                problems.append(f"{path}: {error}; ignored")
            except (*DAMAGE, LookupError, TypeError) as error:  # for example of its events
                problems.append(f"{path}: damaged ({type(error).__name__}: {error}); ignored")
        gone = sorted(name for name in kept or {} if not (place / name).exists())
        problems += [f"{place / name}: is missing; restore it, or remove its line from {CHECKSUMS}" for name in gone]
    runs.sort(key=lambda run: (run.record["exp"], run.seed, run.record["id"]))
    return Kept(runs, problems, corpora(runs), read_costs(folder))


def corpora(runs: Sequence[Run]) -> dict[str, dict[str, float]]:
    """Return the entropies of corpora by fingerprint, from the records that contain them, as all except old ones do."""
    entropies: dict[str, dict[str, float]] = {}
    for data in (run.record["data"] for run in runs):
        if known := {key: data[key] for key in ("unigram_bits", "source_blind_bits") if data.get(key) is not None}:
            entropies.setdefault(data["fingerprint"], {}).update(known)
    return entropies


def read_costs(folder: Path) -> Costs:
    """Return the costs of the schemes from the benchmark beside a folder of records; empty without the file."""
    rows = (read_json(folder.parent / "bench" / "schemes.json", dict) or {}).get("rows", [])
    return {row["name"].removeprefix("norm/"): row for row in rows}


def find(folder: Path, id: str) -> Path | None:
    """Return the file of the record with this id; None if there is none."""
    return next(folder.rglob(f"{id}.json"), None)


def read_theory(folder: Path) -> list[dict[str, Any]]:
    """Return the findings of `ln-repro theory` from the file beside a folder of records; empty without the file."""
    path = folder.parent / "theory.json"
    findings = (read_json(path, dict) or {}).get("findings", [])
    if isinstance(findings, list) and all(isinstance(one, dict) and one.keys() >= FINDING for one in findings):
        return findings
    warn(f"{path} is ignored: its findings are damaged (ln-repro theory --full writes them again)")
    return []
