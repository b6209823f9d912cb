"""The record of a run: a small file from which tables, figures and verdicts are computed."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal

from pydantic import BaseModel, Field

from ln_repro.errors import LnReproError
from ln_repro.experiment.model import TASKS
from ln_repro.experiment.name import Name
from ln_repro.experiment.settings import Experiment
from ln_repro.experiment.validation import FileName, validate
from ln_repro.records import provenance, series
from ln_repro.records.events import Event
from ln_repro.records.series import Probe, TrainingCurve
from ln_repro.system.files import Json

AVERAGE = "test_average"  # name of the test scores of averaged weights
ENDS = {"trained": "finished", "diverged": "diverged"}
"""The states in which training ends, and the status of the run after each."""


class Axes(BaseModel):
    """The settings that the study varies, see `Experiment.axes`."""

    task: str = "translation"
    data: str
    model: str
    norm: str
    init: str
    optimizer: str
    lr: float
    warmup_updates: int
    decay: str
    seed: int
    precision: str
    part: str | None = None
    start: str | None = None


class Divergence(BaseModel):
    """When and by which rule a run diverged."""

    update: int
    epoch: int
    rule: str
    reason: str
    last_finite_loss: float | None


class Epoch(BaseModel):
    """Validation losses after an epoch in bits per token, accuracy for classification, and BLEU where decoded."""

    epoch: int
    update: int
    valid_loss: float | None
    valid_nll_loss: float | None
    valid_accuracy: float | None = None
    valid_bleu: float | None = None
    valid_bleu_tokenised: float | None = None
    test_bleu: float | None = None
    test_bleu_tokenised: float | None = None


class Score(BaseModel):
    """BLEU with sacreBLEU's signature."""

    score: float
    signature: str


class EpochScore(Score):
    """BLEU at an epoch."""

    epoch: int


class AverageScore(Score):
    """BLEU of the weights averaged over epochs."""

    epochs: list[int]


class Scores(BaseModel):
    """Test BLEU at the epoch with the lowest validation loss and, if asked for, of averaged weights."""

    test: EpochScore | None
    test_tokenised: EpochScore | None
    test_average: AverageScore | None = None
    test_average_tokenised: AverageScore | None = None


class Corpus(BaseModel):
    """The corpus of a run."""

    name: str
    published: bool = True  # whether it was run on the published text, as all runs whose records do not say so
    train_percent: int = 100
    fingerprint: str
    unigram_bits: float | None = None
    source_blind_bits: float | None = None
    train_pairs: int | None = None
    valid_pairs: int | None = None
    test_pairs: int | None = None

    @property
    def suffix(self) -> str:
        """The suffix of the names of a setting and a corpus of whose training text there was only a part."""
        return "" if self.train_percent == 100 else f"-{self.train_percent}"


class Code(BaseModel):
    """The code of a run, see `provenance.code_of`."""

    version: str
    git: str | None
    dirty: bool | None
    sessions: list["Code"] = []


class Record(BaseModel):
    """A record: as `record_of` returns it or, with the last four fields, as it is archived."""

    schema_version: Literal[1] = Field(alias="schema")
    id: FileName
    exp: FileName
    divergence: Divergence | None
    axes: Axes
    status: Literal["finished", "diverged", "stopped"]  # stopped: before its end; in results/stopped
    updates: int
    target_tokens: int
    epochs: list[Epoch]
    bleu: Scores
    data: Corpus
    parameters: int
    train_seconds: float
    tokens_per_s: float | None
    peak_memory_mb: int | None
    environment: Json
    code: Code
    settings: Json
    started: str | None = None
    curve: TrainingCurve = TrainingCurve()
    probes: list[Probe] = []
    archive: str = ""

    def plain(self) -> Json:
        """Return the record as it is written, without fields that it does not have."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)

    @cached_property
    def experiment(self) -> Experiment:
        """The experiment, with default paths and without tracker.

        Settings that the record does not name have their defaults; those of newer settings do not change results.
        """
        start = self.settings.get("start")
        defaults = {"tracker": {"name": "none"}, "paths": {"runs": "runs", "data": "data"}}
        resolved = {"start": {"given": f"{start['run']}@{start['epoch']}", **start}} if start else {}
        return validate(Experiment, {**self.settings, **defaults, **resolved})

    @property
    def setting(self) -> str:
        """The setting, with ``-60`` if the run was trained on 60 % of the corpus's training text."""
        return Name.of(self.exp).setting + self.data.suffix

    @property
    def corpus(self) -> str:
        """The name of the corpus, with ``-60`` if the run was trained on 60 % of the training text."""
        return self.data.name + self.data.suffix

    @property
    def decodes(self) -> bool:
        """Whether the task of the run includes decoding."""
        return TASKS[self.axes.task].decodes

    @property
    def lowest_loss(self) -> float | None:
        """The validation loss of the scored epoch, or the lowest one for a task without scores."""
        test = self.bleu.test
        if self.decodes and test is None:
            return None
        losses = [row.valid_loss for row in self.epochs if test is None or row.epoch == test.epoch]
        return min((loss for loss in losses if loss is not None), default=None)

    @property
    def accuracy(self) -> float | None:
        """The accuracy after the last epoch; None for tasks other than classification, or without epochs."""
        return self.epochs[-1].valid_accuracy if self.epochs else None

    def lacks_probes(self, experiment: Experiment) -> bool:
        """Return whether the run lacks the experiment's probes, which are not part of the id."""
        probes = {experiment.probe} if experiment.probe == "collapse" else {experiment.probe, "all"}
        return experiment.probe != "none" and self.settings.get("probe") not in probes

    def with_series(self, events: Sequence[Event]) -> "Record":
        """Return the record with what tables and figures need of its events: ``started``, ``curve`` and ``probes``."""
        started = next((event["time"] for event in events if "time" in event), None)
        kept = {"started": started, "curve": series.curve(events), "probes": series.probes(events)}
        return self.model_copy(update=kept)


def record_of(
    experiment: Experiment, run_id: str, data: Mapping[str, object], events: Sequence[Event], stopped: bool = False
) -> Record:
    """Return the record of a run that has ended or, if ``stopped``, of one that will not go on.

    ``data`` describes its corpus.
    """
    sessions = [event for event in events if event.get("state") in ("started", "resumed")]
    ended = next((event for event in events if event.get("state") in ENDS), None)
    if not sessions or not (ended or stopped):
        raise LnReproError("the events lack the start or the end of training; give the same command again")
    return validate(
        Record,
        {
            "schema": 1,
            "id": run_id,
            "exp": experiment.exp,
            "axes": experiment.axes,
            **results_of(events, bool(experiment.eval.average)),
            "data": data,
            "parameters": sessions[0]["parameters"],
            "peak_memory_mb": ended["peak_memory_mb"] if ended else None,
            "environment": provenance.environment(*sessions),
            "code": provenance.code_of([event["code"] for event in sessions]),
            "settings": experiment.settings(defaults=False),
        },
    )


def results_of(events: Sequence[Event], average: bool) -> Json:
    """Return the fields of a record with its results, which depend only on the events."""
    ends = {event["state"]: event for event in events if event["kind"] == "status"}
    end, epochs = next((end for end in ENDS if end in ends), None), _epochs(events)
    steps = [event for event in events if event["kind"] == "train"]
    tokens, seconds = sum(event["tokens"] for event in steps), sum(event["seconds"] for event in steps)
    return {
        "status": ENDS[end] if end else "stopped",
        "divergence": Divergence.model_validate(ends[end]) if end == "diverged" else None,
        "updates": ends[end]["update"] if end else max((event["update"] for event in events), default=0),
        "target_tokens": tokens,
        "train_seconds": round(seconds, 3),
        "tokens_per_s": round(tokens / seconds, 1) if seconds else None,
        "epochs": epochs,
        "bleu": _scores(events, epochs, average),
    }


def _epochs(events: Sequence[Event]) -> list[Epoch]:
    """Return the results of each epoch, with BLEU or None."""
    rows = {
        event["epoch"]: {
            "epoch": event["epoch"],
            "update": event["update"],
            "valid_loss": event["loss"],
            "valid_nll_loss": event["nll_loss"],
            **({"valid_accuracy": event["accuracy"]} if "accuracy" in event else {}),
            **dict.fromkeys(("valid_bleu", "test_bleu", "test_bleu_tokenised")),
        }
        for event in events
        if event["kind"] == "valid"
    }
    for event in events:
        if event["kind"] == "bleu" and event["split"] != AVERAGE:
            suffix = "_tokenised" if event["flavour"] == "tokenised" else ""
            rows[event["epoch"]][f"{event['split']}_bleu{suffix}"] = event["score"]
    return [Epoch.model_validate(row) for row in rows.values()]


def _scores(events: Sequence[Event], epochs: Sequence[Epoch], average: bool) -> Scores:
    """Return the test scores of the epoch with the lowest validation loss and, with ``average``, of averaged weights.

    Either is None if there are none: averaged weights need enough epochs.
    """
    losses = {row.epoch: row.valid_loss for row in epochs if row.valid_loss is not None and row.test_bleu is not None}
    best = min(losses, key=losses.__getitem__, default=None)
    bleus = [event for event in events if event["kind"] == "bleu"]
    scored = {event["flavour"]: event for event in bleus if event["split"] == "test" and event["epoch"] == best}
    scores = {"test": scored.get("detokenised"), "test_tokenised": scored.get("tokenised")}
    if average:
        averaged = {event["flavour"]: event for event in bleus if event["split"] == AVERAGE}
        scores |= {AVERAGE: averaged.get("detokenised"), f"{AVERAGE}_tokenised": averaged.get("tokenised")}
    return Scores.model_validate(scores)
