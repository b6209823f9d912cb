"""The record of a run: a small file from which tables, figures and verdicts are computed."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel

from ln_repro.errors import LnReproError, UserError
from ln_repro.experiment.name import Name
from ln_repro.experiment.settings import Experiment
from ln_repro.experiment.tasks import TASKS
from ln_repro.experiment.validation import FileName, validate
from ln_repro.records import provenance, series
from ln_repro.records.events import Event

SCHEMA = 1
AVERAGE = "test_average"
"""Name of the test scores of averaged weights."""
Record = dict[str, Any]


class _Axes(BaseModel):
    data: str
    norm: str
    warmup_updates: int
    decay: str
    seed: int


class _Epoch(BaseModel):
    epoch: int
    update: int
    valid_loss: float | None
    valid_nll_loss: float | None
    test_bleu: float | None


class _Score(BaseModel):
    score: float
    signature: str


class _Best(_Score):
    epoch: int


class _Scores(BaseModel):
    test: _Best | None
    test_tokenised: _Score | None


class _Corpus(BaseModel):
    name: str
    fingerprint: str


class _Fields(BaseModel):
    """The fields that every record has; others depend on the task and the version of the code."""

    id: FileName
    exp: FileName
    status: Literal["finished", "diverged"]
    axes: _Axes
    epochs: list[_Epoch]
    bleu: _Scores
    data: _Corpus
    parameters: int
    updates: int
    target_tokens: int
    environment: dict[str, Any]
    code: dict[str, Any]
    settings: dict[str, Any]


def renamed(record: Record) -> Record:
    """Return a record whose settings have their present name; once, it was ``experiment``."""
    return {"settings" if name == "experiment" else name: value for name, value in record.items()}


def kept_form(record: Record, events: Sequence[Event]) -> Record:
    """Return the record of a finished run with what tables and figures need of its events.

    It adds ``started`` (the time), ``curve`` and ``probes``, see `ln_repro.records.series`.
    """
    started = next((event["time"] for event in events if "time" in event), None)
    return {**record, "started": started, "curve": series.curve(events), "probes": series.probes(events)}


def incomplete(record: Record) -> str | None:
    """Return which fields are missing or invalid, or None."""
    try:
        validate(_Fields, record)
    except UserError as error:
        return str(error)
    return None


def task_of(record: Record) -> str:
    """Return the task of a run, which old records do not contain."""
    return str(record["axes"].get("task", "translation"))


def setting_of(record: Record) -> str:
    """Return the setting of a run, with ``-60`` if it was trained on 60 % of the corpus's training text."""
    return Name.of(record["exp"]).setting + _part(record)


def corpus_of(record: Record) -> str:
    """Return the corpus of a run, with ``-60`` if it was trained on 60 % of the training text."""
    return f"{record['data']['name']}{_part(record)}"


def _part(record: Record) -> str:
    percent = record["data"].get("train_percent", 100)
    return f"-{percent}" * (percent != 100)


def decoded(record: Record) -> bool:
    """Return whether the task of a run includes decoding."""
    return TASKS[task_of(record)].decodes


def experiment_of(record: Record) -> Experiment:
    """Return the experiment of a record, with default paths and without tracker.

    Settings that are newer than the record have their defaults, which do not change results.
    """
    settings, start = record["settings"], record["settings"].get("start")
    defaults = {"tracker": {"name": "none"}, "paths": {"runs": "runs", "data": "data"}}
    given = {"start": {"given": f"{start['run']}@{start['epoch']}", **start}} if start else {}
    return validate(Experiment, {**settings, **defaults, **given})


def unprobed(experiment: Experiment, record: Record) -> bool:
    """Return whether a finished run lacks the experiment's probes, which are not part of the id."""
    recorded = record["settings"].get("probe")
    return experiment.probe not in ("none", recorded) and recorded != "all"


def lowest_loss(record: Record) -> float | None:
    """Return the validation loss of the scored epoch, or the lowest one for a task without scores."""
    test = record["bleu"]["test"]
    if decoded(record) and test is None:
        return None
    losses = [row["valid_loss"] for row in record["epochs"] if test is None or row["epoch"] == test["epoch"]]
    return min((loss for loss in losses if loss is not None), default=None)


def accuracy(record: Record) -> float | None:
    """Return the accuracy after the last epoch; None for tasks other than classification, or without epochs."""
    return record["epochs"][-1].get("valid_accuracy") if record["epochs"] else None


def record_of(experiment: Experiment, run_id: str, data: Mapping[str, Any], events: Sequence[Event]) -> Record:
    """Return the record of a finished run; ``data`` describes its corpus."""
    statuses = {event["state"]: event for event in events if event["kind"] == "status"}
    seconds = sum(event["seconds"] for event in events if event["kind"] == "train")
    sessions = [event for event in events if event.get("state") in ("started", "resumed")]
    diverged = statuses.get("diverged")
    ended = statuses.get("trained") or diverged
    if not sessions or ended is None:
        raise LnReproError("the events lack the start or the end of training; give the same command again")
    results = results_of(events, bool(experiment.eval.average))
    return {
        "schema": SCHEMA,
        "id": run_id,
        "exp": experiment.exp,
        "divergence": diverged
        and {key: diverged[key] for key in ("update", "epoch", "rule", "reason", "last_finite_loss")},
        "axes": experiment.axes,
        **results,
        "data": dict(data),
        "parameters": sessions[0]["parameters"],
        "train_seconds": round(seconds, 3),
        "tokens_per_s": round(results["target_tokens"] / seconds, 1) if seconds else None,
        "peak_memory_mb": ended["peak_memory_mb"],
        "environment": provenance.environment(*sessions),
        "code": provenance.code_of([event.get("code", provenance.UNKNOWN) for event in sessions]),
        "settings": experiment.settings(),
    }


def results_of(events: Sequence[Event], average: bool) -> dict[str, Any]:
    """Return the fields of a record that depend only on the events."""
    ends = {event["state"]: event["update"] for event in events if event["kind"] == "status"}
    trained, epochs = "trained" in ends, _epochs(events)
    return {
        "status": "finished" if trained else "diverged",
        "updates": ends.get("trained" if trained else "diverged"),
        "target_tokens": sum(event["tokens"] for event in events if event["kind"] == "train"),
        "epochs": epochs,
        "bleu": _best_scores(events, epochs) | (_average_scores(events) if average else {}),
    }


def _epochs(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Return a row for each epoch: validation losses in bits per token, accuracy for classification, BLEU or None."""
    rows = {
        event["epoch"]: {
            "epoch": event["epoch"],
            "update": event["update"],
            "valid_loss": event["loss"],
            "valid_nll_loss": event["nll_loss"],
            **({"valid_accuracy": event["accuracy"]} if "accuracy" in event else {}),
            "valid_bleu": None,
            "test_bleu": None,
            "test_bleu_tokenised": None,
        }
        for event in events
        if event["kind"] == "valid"
    }
    for event in events:
        if event["kind"] == "bleu" and event["split"] != AVERAGE:
            suffix = "_tokenised" if event["flavour"] == "tokenised" else ""
            rows[event["epoch"]][f"{event['split']}_bleu{suffix}"] = event["score"]
    return list(rows.values())


def _best_scores(events: Sequence[Event], epochs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the test scores of the epoch with the lowest validation loss."""
    finite = [row for row in epochs if row["valid_loss"] is not None and row["test_bleu"] is not None]
    if not finite:
        return {"test": None, "test_tokenised": None}
    best = min(finite, key=lambda row: row["valid_loss"])["epoch"]
    scores = {
        event["flavour"]: {"score": event["score"], "signature": event["signature"], "epoch": best}
        for event in events
        if event["kind"] == "bleu" and event["split"] == "test" and event["epoch"] == best
    }
    return {"test": scores["detokenised"], "test_tokenised": scores["tokenised"]}


def _average_scores(events: Sequence[Event]) -> dict[str, Any]:
    """Return the test scores of the averaged weights; None if too few epochs were trained."""
    scores = {
        event["flavour"]: {key: event[key] for key in ("score", "signature", "epochs")}
        for event in events
        if event["kind"] == "bleu" and event["split"] == AVERAGE
    }
    return {AVERAGE: scores.get("detokenised"), f"{AVERAGE}_tokenised": scores.get("tokenised")}
