"""Records of one arm to a curve: mean over seeds, interval, and where runs were lost."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from ln_repro.claims.intervals import Interval, mean_interval
from ln_repro.paper.figures import Quantity
from ln_repro.records.record import Record, accuracy, started

FIELDS: dict[Quantity, str] = {"loss": "valid_loss", "bleu": "test_bleu_tokenised"}
"""What is drawn of an epoch; the tokenised BLEU is the one that can stand beside the paper's."""
RANGES: dict[Quantity, Interval] = {"loss": (0, math.inf), "bleu": (0, 100), "accuracy": (0, 100)}


@dataclass(frozen=True)
class Curve:
    """A quantity by epoch; accuracy by the updates of pre-training.

    Attributes:
        means: over the seeds that have the point.
        intervals: at 95 %, within what the quantity can be; none for one seed.
        lost: the last point of every run that was not finite or given up.
        seeds: how many there are.
    """

    means: dict[int, float]
    intervals: dict[int, Interval]
    lost: list[tuple[int, float]]
    seeds: int


def curve(records: Sequence[Record], quantity: Quantity) -> Curve | None:
    """Return a quantity over the seeds of an arm; None if no run has it."""
    runs = [points(record, quantity) for record in records]
    values = {x: [run[x] for run in runs if x in run] for x in sorted(set().union(*runs))}
    ended = [list(run.items()) for record, run in zip(records, runs, strict=True) if record["status"] == "diverged"]
    if not values:
        return None
    return Curve(
        means={x: fmean(seeds) for x, seeds in values.items()},
        intervals={x: band(seeds, RANGES[quantity]) for x, seeds in values.items() if len(seeds) > 1},
        lost=[run[-1] for run in ended if run],
        seeds=len({record["axes"]["seed"] for record in records}),
    )


def band(values: Sequence[float], within: Interval) -> Interval:
    """Return the interval of the mean, cut to what is possible."""
    (low, high), (least, most) = mean_interval(values), within
    return max(low, least), min(high, most)


def points(record: Record, quantity: Quantity) -> dict[int, float]:
    """Return a run's values by epoch, without those that are not finite or were not scored; or its one accuracy."""
    if quantity == "accuracy":
        start, share = started(record), accuracy(record)
        return {} if start is None or share is None else {start: 100 * share}
    found = {row["epoch"]: row.get(FIELDS[quantity]) for row in record["epochs"]}
    return {epoch: value for epoch, value in found.items() if value is not None}
