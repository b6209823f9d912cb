"""The runs as the page shows them: arms with their scores, and thinned curves."""

import json
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from ln_repro.records.record import Record, decoded, lowest_loss, task_of

POINTS = 100
"""At most so many points a training curve: what a chart of this size can show."""
NAMES = {"postln": "Post-LN", "preln": "Pre-LN", "deepnorm": "DeepNorm", "rezero": "ReZero", "admin": "Admin",
         "admin_closed": "Admin, closed form", "adam": "Adam", "radam": "RAdam", "sgd": "SGD", "iwslt14": "IWSLT14",
         "wmt14": "WMT14", "multi30k": "Multi30k", "tatoeba": "Tatoeba", "toy": "Toy",
         "mrpc": "MRPC", "rte": "RTE", "masked_lm": "masked words"}  # fmt: skip
"""How norms, optimizers, corpora and tasks are written; what is not here is shown as it is."""
CORPORA = ("iwslt14", "wmt14", "multi30k", "tatoeba", "toy")
"""In the order in which they are shown: the paper's first."""
Curve = dict[str, list[Any]]
"""``update`` and ``loss`` (bits per target token; None where not finite)."""
Arm = dict[str, Any]


def thinned(events: Sequence[Mapping[str, Any]], points: int = POINTS) -> Curve:
    """Return the training loss at no more than ``points`` updates: the mean over equally many events each."""
    steps = [event for event in events if event["kind"] == "train"]
    size = max(1, -(-len(steps) // points))
    groups = [steps[start : start + size] for start in range(0, len(steps), size)]
    losses = [[step["loss"] for step in group if step["loss"] is not None] for group in groups]
    return {
        "update": [group[-1]["update"] for group in groups],
        "loss": [round(fmean(values), 3) if values else None for values in losses],
    }


def arms_of(records: Sequence[Record]) -> list[Arm]:
    """Return the records grouped into arms: what differs in nothing but the seed."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        axes = {key: value for key, value in record["axes"].items() if key != "seed"}
        groups.setdefault(json.dumps([record["exp"], axes, record.get("parameters")]), []).append(record)
    arms = [_arm(members) for members in groups.values()]
    return sorted(arms, key=lambda arm: (corpus_order(arm["data"]), -arm["bleu_mean"], arm["exp"], arm["lr"] or 0))


def corpus_order(name: str) -> tuple[int, str]:
    """Return where a corpus stands among others."""
    return (CORPORA.index(name) if name in CORPORA else len(CORPORA), name)


def corpus_of(record: Record) -> str:
    """Return the corpus under which a run is shown; what else than translation was learnt of it stands apart."""
    corpus = str(record["axes"]["data"])
    return corpus if decoded(record) else f"{corpus}, {task_of(record)}"


def named(word: str) -> str:
    """Return how a norm, an optimizer or a corpus is written."""
    return ", ".join(NAMES.get(part, part) for part in word.split(", "))


def _arm(members: Sequence[Record]) -> Arm:
    """Return one arm: its axes in words, and its scores over seeds."""
    axes = members[0]["axes"]
    scores = [best(record) for record in members]
    losses, bleus = ([score for score in column if score is not None] for column in zip(*scores, strict=True))
    warmup = axes["warmup_updates"]
    return {
        "exp": members[0]["exp"],
        "data": corpus_of(members[0]),
        "norm": axes["norm"],
        "optimizer": axes.get("optimizer", "adam"),
        "warm": warmup > 0,
        "schedule": f"warm-up over {warmup} updates" if warmup else f"no warm-up, {axes['decay'].replace('_', ' ')}",
        "decay": axes["decay"],
        "lr": axes.get("lr"),
        "ids": [record["id"] for record in members],
        "seeds": [record["axes"]["seed"] for record in members],
        "loss": spread(losses, 2),
        "bleu": spread(bleus, 1),
        "bleu_mean": fmean(bleus) if bleus else -1.0,
        "diverged": sum(record["status"] == "diverged" for record in members),
    }


def best(record: Record) -> tuple[float | None, float | None]:
    """Return validation loss and test BLEU, on tokens as the paper's, at the epoch of lowest validation loss."""
    test = record["bleu"]["test_tokenised"]
    return lowest_loss(record), test and test["score"]


def spread(values: Sequence[float], digits: int) -> str:
    """Return the mean, with least and most where there are several."""
    if not values:
        return "–"
    mean = f"{fmean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def chart_data(records: Sequence[Record], curves: Mapping[str, Curve], arms: Sequence[Arm]) -> dict[str, Any]:
    """Return what the charts of runs are drawn from: runs by id, and the updates that many runs share, once."""
    arm_of = {name: number for number, arm in enumerate(arms) for name in arm["ids"]}
    grids: list[list[int]] = []
    runs = {}
    for record in records:
        curve = curves.get(record["id"], {"update": [], "loss": []})
        if curve["update"] not in grids:
            grids.append(curve["update"])
        runs[record["id"]] = {
            "arm": arm_of[record["id"]],
            "seed": record["axes"]["seed"],
            "epoch": [row["epoch"] for row in record["epochs"]],
            "loss": [_rounded(row["valid_loss"]) for row in record["epochs"]],
            "bleu": [_rounded(row["test_bleu_tokenised"]) for row in record["epochs"]],
            "grid": grids.index(curve["update"]),
            "train": curve["loss"],
        }
    shown = ("exp", "data", "norm", "optimizer", "warm", "decay", "schedule")
    named_arms = [
        {key: arm[key] for key in shown} | {"name": f"{named(arm['norm'])}, {named(arm['optimizer'])}"} for arm in arms
    ]
    return {"arms": named_arms, "runs": runs, "grids": grids}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
