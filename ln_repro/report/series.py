"""Curves of an arm from its records: means and intervals over seeds, and the points where runs diverged."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from ln_repro.claims.intervals import Interval, mean_interval
from ln_repro.paper.figures import Quantity
from ln_repro.records.record import Record, accuracy, started

FIELDS: dict[Quantity, str] = {"loss": "valid_loss", "bleu": "test_bleu_tokenised"}
"""Fields of a record's epochs; the paper's BLEU is the tokenised one."""


@dataclass(frozen=True)
class Curve:
    """A quantity by epoch or, for accuracy, by updates of pre-training.

    Attributes:
        means: means over the seeds with a value.
        intervals: 95 % intervals, clipped to possible values, where there are several seeds.
        ends: the last point of every run that diverged or was stopped early.
        seeds: number of seeds.
    """

    means: dict[int, float]
    intervals: dict[int, Interval]
    ends: list[tuple[int, float]]
    seeds: int


def curve(records: Sequence[Record], quantity: Quantity) -> Curve | None:
    """Return a quantity over the seeds of an arm; None if no run has it."""
    runs = [points(record, quantity) for record in records]
    values = {x: [run[x] for run in runs if x in run] for x in sorted(set().union(*runs))}
    if not values:
        return None
    most = math.inf if quantity == "loss" else 100
    intervals = {x: mean_interval(seeds) for x, seeds in values.items() if len(seeds) > 1}
    return Curve(
        means={x: fmean(seeds) for x, seeds in values.items()},
        intervals={x: (max(low, 0), min(high, most)) for x, (low, high) in intervals.items()},
        ends=[
            [*run.items()][-1] for one, run in zip(records, runs, strict=True) if one["status"] == "diverged" and run
        ],
        seeds=len({record["axes"]["seed"] for record in records}),
    )


def points(record: Record, quantity: Quantity) -> dict[int, float]:
    """Return the finite values of a run by epoch or, for accuracy, its value in per cent by updates of pre-training."""
    if quantity == "accuracy":
        start, share = started(record), accuracy(record)
        return {} if start is None or share is None else {start: 100 * share}
    values = {row["epoch"]: row.get(FIELDS[quantity]) for row in record["epochs"]}
    return {epoch: value for epoch, value in values.items() if value is not None}
