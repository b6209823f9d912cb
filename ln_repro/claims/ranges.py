"""Which peak learning rates an arm can be trained at, and which is its best."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from ln_repro.claims.effects import SHARE, Count
from ln_repro.claims.evidence import Evidence, Rate, Runs
from ln_repro.records.archive import Run

CURVE_SEEDS = 3
"""Minimum number of seeds for a rate to count."""


def usable_curve(evidence: Evidence, arm: str) -> dict[Rate, list[Run]]:
    """Return the runs of an arm by learning rate, without rates that have fewer than `CURVE_SEEDS`."""
    return {rate: runs for rate, runs in evidence.curve(arm).items() if len(runs) >= CURVE_SEEDS}


def best_rate(evidence: Evidence, arm: str) -> tuple[Rate, Runs] | None:
    """Return the rate with the lowest mean validation loss and its runs by seed; None if no rate has enough runs."""
    curve = usable_curve(evidence, arm)
    if not curve:
        return None
    rate = min(curve, key=lambda rate: (fmean(run.loss for run in curve[rate]), rate))
    return rate, {run.seed: run for run in curve[rate]}


def at_edge(evidence: Evidence, arm: str) -> str:
    """Return "higher" or "lower" if the best rate of an arm is at that end of those run; empty if it is inside."""
    curve, best = usable_curve(evidence, arm), best_rate(evidence, arm)
    if best is None or min(curve) < best[0] < max(curve):
        return ""
    return "higher" if best[0] == max(curve) else "lower"


@dataclass(frozen=True)
class Range:
    """The usable range of an arm: the lowest and the highest rate at which it trains."""

    low: Rate
    high: Rate
    open: tuple[bool, bool]  # whether it may extend beyond each end, because no rate was run there
    counts: Mapping[Rate, Count]  # the seeds that train, by rate

    @property
    def octaves(self) -> float:
        """The width, in factors of two of the rate."""
        return math.log2(self.high / self.low)

    def __str__(self) -> str:
        below, above = ("<" * self.open[0], "+" * self.open[1])
        return f"{below}{self.low:g}-{self.high:g}{above}"


def usable_range(evidence: Evidence, arm: str) -> Range | None:
    """Return the usable range of an arm, in which at least `SHARE` of the seeds train; None if it trains nowhere."""
    counts = {rate: Count.of(evidence.trained, runs) for rate, runs in usable_curve(evidence, arm).items()}
    trains = [rate for rate, count in counts.items() if count.share >= SHARE]
    if not trains:
        return None
    low, high = min(trains), max(trains)
    return Range(low, high, (low == min(counts), high == max(counts)), counts)
