"""A standard experiment and a standard record, which tests modify."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ln_repro.experiment.learning_rate import LearningRate
from ln_repro.experiment.settings import Experiment, build
from ln_repro.experiment.validation import validate
from ln_repro.records.archive import Run, line_of
from ln_repro.records.record import Record
from ln_repro.sweep.grid import GridRun
from ln_repro.sweep.plan import PlannedRun

SIGNATURE = "nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|version:2.4.0|data:toy/test|beam:5|lenpen:1.2|avg:1"


def settings(**changes: Any) -> dict[str, Any]:
    """Return complete plain settings; a change's key is dotted with two underscores (``train__max_update=5``)."""
    found: dict[str, Any] = {
        "exp": "toy_postln_warm", "seed": 1, "norm": "postln", "init": "xavier_legacy", "lr": 2e-3, "precision": "fp32",
        "data": {"name": "toy", "bpe_merges": 0},
        "model": {"name": "toy", "layers": 6, "width": 64, "ffn": 128, "heads": 4},
        "optimizer": {"name": "adam", "betas": [0.9, 0.98], "eps": 1e-8},
        "schedule": {"warmup_updates": 400, "decay": "constant"},
        "train": {"max_update": 1200},
        "eval": {},
        "divergence": {},
        "tracker": {"name": "none"},
        "paths": {"runs": "runs", "data": "data"},
    }  # fmt: skip
    for key, value in changes.items():
        *parts, last = key.split("__")
        section = found
        for part in parts:
            section = section[part]
        section[last] = value
    return found


def experiment(**changes: Any) -> Experiment:
    return build(settings(**changes))


def planned(run: Experiment) -> PlannedRun:
    """Return the run of a grid, on a corpus with the fingerprint "data"."""
    rate = LearningRate(1.0, 0, "constant", 4000, 0, total=10)
    return PlannedRun(GridRun(run.exp, run.seed), run, rate, "data")


def record(**changes: Any) -> dict[str, Any]:
    """Return the content of the record of a finished toy run of two epochs, the second the better one."""
    epochs = [
        {"epoch": 1, "update": 100, "valid_loss": 5.25, "valid_nll_loss": 5.0, "valid_bleu": None, "test_bleu": 3.0,
         "test_bleu_tokenised": 3.25},
        {"epoch": 2, "update": 200, "valid_loss": 2.125, "valid_nll_loss": 2.0, "valid_bleu": None, "test_bleu": 41.5,
         "test_bleu_tokenised": 43.25},
    ]  # fmt: skip
    bleu = {
        "test": {"score": 41.512, "signature": SIGNATURE, "epoch": 2},
        "test_tokenised": {"score": 43.25, "signature": SIGNATURE.replace("13a", "none"), "epoch": 2},
    }
    trained = experiment(exp="toy_preln_nowarm", norm="preln", schedule__warmup_updates=0)
    return {
        "schema": 1, "id": "0123456789", "exp": "toy_preln_nowarm", "status": "finished", "divergence": None,
        "axes": trained.axes,
        "epochs": epochs, "bleu": bleu, "data": {"name": "toy", "fingerprint": "sha256:0"}, "parameters": 1000,
        "updates": 200, "target_tokens": 100_000, "train_seconds": 10.0, "tokens_per_s": 10_000.0,
        "peak_memory_mb": 400, "environment": {}, "code": {"version": "0", "git": None, "dirty": None},
        "settings": trained.settings(), **changes,
    }  # fmt: skip


def recorded(**changes: Any) -> Record:
    """Return `record` as it is read."""
    return validate(Record, record(**changes))


def with_events(record: Record, events: Sequence[dict[str, Any]]) -> Run:
    """Return a run with these events."""
    return Run(record.with_series(events), events)


def store(folder: Path, *records: dict[str, Any]) -> None:
    """Add records without events to a folder of records."""
    folder.mkdir(parents=True, exist_ok=True)
    for made in records:
        with (folder / f"{made['exp'].partition('_')[0]}.jsonl").open("a") as file:
            file.write(f"{line_of({**recorded(**made).with_series(()).plain(), 'archive': '0001-none.tar.xz'})}\n")


def diverged(**changes: Any) -> dict[str, Any]:
    """Return the content of the record of a run that diverged before its first epoch ended."""
    trained = experiment(exp="toy_postln_nowarm", norm="postln", schedule__warmup_updates=0, seed=2)
    return record(**{
        "exp": "toy_postln_nowarm", "id": "abcdef0123", "status": "diverged", "epochs": [],
        "bleu": {"test": None, "test_tokenised": None},
        "divergence": {"update": 7, "epoch": 1, "rule": "not_finite", "reason": "the loss is not finite",
                       "last_finite_loss": 12.5},
        "axes": trained.axes, "settings": trained.settings(), **changes,
    })  # fmt: skip
