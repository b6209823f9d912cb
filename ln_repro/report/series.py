"""Records of one arm to a curve by epoch: mean over seeds, interval, and where runs were lost."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from ln_repro.paper.figures import Quantity
from ln_repro.record import Record
from ln_repro.statistics import Interval, mean_interval

INIT = "xavier_legacy"
"""The initialisation of the training claims; other runs are in the tables."""
FIELDS: dict[Quantity, str] = {"loss": "valid_loss", "bleu": "test_bleu_tokenised"}
"""What is drawn of an epoch; the tokenised BLEU is the one that can stand beside the paper's."""
Arms = dict[str, list[Record]]
"""By arm, one record a seed."""
RANGES: dict[Quantity, Interval] = {"loss": (0, math.inf), "bleu": (0, 100)}


@dataclass(frozen=True)
class Curve:
    """A quantity by epoch.

    Attributes:
        means: over the seeds that reached the epoch.
        intervals: at 95 %, within what the quantity can be; none for one seed.
        lost: the last epoch and value of every run that was not finite or given up.
        seeds: how many there are.
    """

    means: dict[int, float]
    intervals: dict[int, Interval]
    lost: list[tuple[int, float]]
    seeds: int


def by_corpus(records: Iterable[Record]) -> tuple[dict[str, Arms], list[str]]:
    """Return the records that can be drawn, by corpus and arm, and a line for each kind that was left out."""
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    left_out: list[str] = []
    for record in records:
        corpus, _, arm = record["exp"].partition("_")
        if reason := _strange(record, corpus, arm):
            left_out.append(f"{record['exp']}: {reason}")
        else:
            groups[corpus, arm].append(record)
    found: dict[str, Arms] = defaultdict(dict)
    for (corpus, arm), group in groups.items():
        found[corpus][arm] = alike(group)
        left_out += [f"{corpus}_{arm}: other settings, or a seed again"] * (len(group) - len(found[corpus][arm]))
    return dict(found), [f"{line}, {number} of its records" for line, number in Counter(left_out).items()]


def _strange(record: Record, corpus: str, arm: str) -> str:
    """Return in what a run differs from the experiment that it is named after; nothing if it does not."""
    axes, data = record["axes"], record["data"]["name"]
    if not data.startswith(corpus):
        return f"data={data}"
    if arm.split("_")[0] != axes["norm"]:
        return f"norm={axes['norm']}"
    return "" if axes.get("init") == INIT else f"init={axes.get('init')}"


def alike(records: Sequence[Record]) -> list[Record]:
    """Return one record a seed, of those with the settings that most seeds have: others are not averaged with them."""
    groups: dict[str, dict[int, Record]] = defaultdict(dict)
    for record in records:
        settings = {name: value for name, value in record["axes"].items() if name not in ("seed", "precision")}
        groups[repr(sorted(settings.items()))].setdefault(record["axes"]["seed"], record)
    return list(max(groups.values(), key=len).values())


def curve(records: Sequence[Record], quantity: Quantity) -> Curve | None:
    """Return a quantity by epoch over the seeds of an arm; None if no epoch has it."""
    runs = [points(record, quantity) for record in records]
    values = {epoch: [run[epoch] for run in runs if epoch in run] for epoch in sorted(set().union(*runs))}
    ended = [list(run.items()) for record, run in zip(records, runs, strict=True) if record["status"] == "diverged"]
    if not values:
        return None
    return Curve(
        means={epoch: fmean(of_epoch) for epoch, of_epoch in values.items()},
        intervals={epoch: band(seeds, RANGES[quantity]) for epoch, seeds in values.items() if len(seeds) > 1},
        lost=[run[-1] for run in ended if run],
        seeds=len(records),
    )


def band(values: Sequence[float], within: Interval) -> Interval:
    """Return the interval of the mean, cut to what is possible."""
    (low, high), (least, most) = mean_interval(values), within
    return max(low, least), min(high, most)


def points(record: Record, quantity: Quantity) -> dict[int, float]:
    """Return a run's values by epoch, without those that are not finite or were not scored."""
    found = {row["epoch"]: row.get(FIELDS[quantity]) for row in record["epochs"]}
    return {epoch: value for epoch, value in found.items() if value is not None}
