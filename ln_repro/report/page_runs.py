"""The runs on the report page: arms with their scores, and curves with fewer points."""

import json
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from ln_repro.claims.evidence import interventions
from ln_repro.claims.words import corpus_order, named
from ln_repro.records.archive import Run
from ln_repro.records.record import decoded, lowest_loss, task_of

POINTS = 100
"""Maximum number of points of a training curve."""
Curve = dict[str, list[Any]]
"""``update`` and ``loss`` (bits per target token; None where not finite)."""
Arm = dict[str, Any]


def thinned(events: Sequence[Mapping[str, Any]]) -> Curve:
    """Return the training loss at no more than `POINTS` updates, each the mean over equally many events."""
    steps = [event for event in events if event["kind"] == "train"]
    size = max(1, -(-len(steps) // POINTS))
    groups = [steps[start : start + size] for start in range(0, len(steps), size)]
    losses = [[step["loss"] for step in group if step["loss"] is not None] for group in groups]
    return {
        "update": [group[-1]["update"] for group in groups],
        "loss": [round(fmean(values), 3) if values else None for values in losses],
    }


def arms_of(runs: Sequence[Run]) -> list[Arm]:
    """Return the runs grouped into arms, whose runs differ only in the seed."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        axes = {key: value for key, value in run.record["axes"].items() if key != "seed"}
        key = [run.record["exp"], axes, run.record.get("parameters"), *interventions(run.experiment)]
        groups.setdefault(json.dumps(key), []).append(run)
    arms = [_arm(members) for members in groups.values()]
    return sorted(arms, key=lambda arm: (corpus_order(arm["data"]), -arm["bleu_mean"], arm["exp"], arm["lr"] or 0))


def _arm(runs: Sequence[Run]) -> Arm:
    """Return an arm with its axes as text and its scores over seeds."""
    members = [run.record for run in runs]
    axes = members[0]["axes"]
    tests = [record["bleu"]["test_tokenised"] for record in members]
    losses = [loss for record in members if (loss := lowest_loss(record)) is not None]
    bleus = [test["score"] for test in tests if test and test["score"] is not None]
    warmup = axes["warmup_updates"]
    schedule = f"warm-up over {warmup} updates" if warmup else f"no warm-up, {axes['decay'].replace('_', ' ')}"
    return {
        "exp": members[0]["exp"],
        "data": axes["data"] if decoded(members[0]) else f"{axes['data']}, {task_of(members[0])}",
        "norm": axes["norm"],
        "optimizer": axes.get("optimizer", "adam"),
        "warm": warmup > 0,
        "schedule": ", ".join([schedule, *interventions(runs[0].experiment)]),
        "decay": axes["decay"],
        "lr": axes.get("lr"),
        "ids": [record["id"] for record in members],
        "seeds": [record["axes"]["seed"] for record in members],
        "loss": _spread(losses, 2),
        "bleu": _spread(bleus, 1),
        "bleu_mean": fmean(bleus) if bleus else -1.0,
        "diverged": sum(record["status"] == "diverged" for record in members),
    }


def _spread(values: Sequence[float], digits: int) -> str:
    """Return the mean and, of several values, the smallest and the largest, as text."""
    if not values:
        return "–"
    mean = f"{fmean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def chart_data(runs: Sequence[Run], arms: Sequence[Arm]) -> dict[str, Any]:
    """Return the data of the charts: runs by id; updates that several runs share are stored once, in ``grids``."""
    arm_of = {name: number for number, arm in enumerate(arms) for name in arm["ids"]}
    grids: list[list[int]] = []
    shown = {}
    for run in runs:
        record, curve = run.record, thinned(run.events)
        if curve["update"] not in grids:
            grids.append(curve["update"])
        shown[record["id"]] = {
            "arm": arm_of[record["id"]],
            "seed": record["axes"]["seed"],
            "epoch": [row["epoch"] for row in record["epochs"]],
            "loss": [_rounded(row["valid_loss"]) for row in record["epochs"]],
            "bleu": [_rounded(row.get("test_bleu_tokenised")) for row in record["epochs"]],
            "grid": grids.index(curve["update"]),
            "train": curve["loss"],
        }
    keys = ("exp", "data", "norm", "optimizer", "warm", "decay", "schedule")
    named_arms = [
        {key: arm[key] for key in keys} | {"name": f"{named(arm['norm'])}, {named(arm['optimizer'])}"} for arm in arms
    ]
    return {"arms": named_arms, "runs": shown, "grids": grids}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
