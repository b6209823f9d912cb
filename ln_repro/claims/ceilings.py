"""Ceilings and best rates of arms over a grid of learning rates, and how many of their seeds train."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import fmean
from typing import NamedTuple

from ln_repro.claims.criteria import SEEDS, SHARE, Count
from ln_repro.claims.evidence import Evidence, Rate
from ln_repro.claims.intervals import fisher_exact
from ln_repro.records.archive import Run

CURVE_SEEDS = 3
"""Minimum number of seeds for a rate to count; a verdict needs `SEEDS` at those that decide about the ceiling."""
MANY = f"{CURVE_SEEDS} seeds or more"
Measure = Callable[[Run], float]
NLL: Measure = attrgetter("nll")
LOSS: Measure = attrgetter("loss")
SIGNIFICANT = 0.05
"""Significance level of Fisher's exact test on the numbers of seeds that train."""


@dataclass(frozen=True)
class Ceiling:
    """The largest learning rate of a grid at which an arm trains."""

    rate: Rate | None  # None if the arm trains at no rate
    above: Rate | None  # the next rate, at which it does not; None if the ceiling may be above all rates that were run
    rates: dict[Rate, Count]  # the number of seeds that train
    open: tuple[Rate, ...]  # rates that decide about it and have fewer seeds than a verdict needs

    def words(self) -> str:
        """Return the ceiling as text."""
        if not self.rates:
            return "not known"
        if self.rate is None and self.above is None:
            return f"not known (it may be under-trained up to {max(self.rates):g}, where its NLL is lowest)"
        if self.rate is None:
            return f"below {min(self.rates):g} (the lowest rate with {MANY})"
        return f"{'at least ' if self.above is None else ''}{self.rate:g}"

    def plain(self, rate: str) -> str:
        """Return where the arm trains as a clause, given the words for a learning rate."""
        if len(self.rates) == 1:
            return f"{'not ' if self.rate is None else ''}at {min(self.rates):g}, {alone(rate)}"
        if self.rate is None:
            return f"at none of the {rate}s from {min(self.rates):g} to {max(self.rates):g} run with {MANY}"
        least = min(rate for rate, count in self.rates.items() if count.share >= SHARE)
        return f"at {rate}s from {least:g} to {self.words()}" if least < self.rate else f"at a {rate} of {self.words()}"


def listed(rates: Iterable[Rate]) -> str:
    """Return learning rates as text, in ascending order."""
    return ", ".join(f"{rate:g}" for rate in sorted(rates))


def alone(rate: str) -> str:
    """Return the words for the only rate that counts."""
    return f"the only {rate} run with {MANY}"


def undecided(evidence: Evidence, arm: str) -> set[Rate]:
    """Return the rates with too few seeds for a verdict at which an arm may train once they are complete."""
    counts = {rate: Count.of(evidence.trained, runs) for rate, runs in evidence.curve(arm).items()}
    return {rate for rate, (hits, runs) in counts.items() if runs < SEEDS and Count(hits + SEEDS - runs, SEEDS).most}


def usable_curve(evidence: Evidence, arm: str) -> dict[Rate, list[Run]]:
    """Return the runs of an arm by learning rate, without rates that have fewer than `CURVE_SEEDS`."""
    return {rate: runs for rate, runs in evidence.curve(arm).items() if len(runs) >= CURVE_SEEDS}


def ceiling(evidence: Evidence, arm: str) -> Ceiling:
    """Return the ceiling of an arm; one that trains at no rate but is best at the highest may only be under-trained."""
    counts = {rate: Count.of(evidence.trained, runs) for rate, runs in usable_curve(evidence, arm).items()}
    top = max((rate for rate, count in counts.items() if count.share >= SHARE), default=None)
    above = min((rate for rate in counts if top is None or rate > top), default=None)
    if top is None and len(counts) > 1 and better_beyond(evidence, arm) == "higher":
        above = None
    deciding = {top, above}
    if top is None and above is not None:
        deciding |= {_lowest(usable_curve(evidence, arm), NLL), max(counts)}
    few = tuple(sorted(rate for rate in deciding if rate is not None and counts[rate].runs < SEEDS))
    return Ceiling(top, above, counts, few)


def best_rate(evidence: Evidence, arm: str) -> tuple[Rate, dict[int, Run]] | None:
    """Return the rate with the lowest mean validation loss and its runs by seed; None if no rate has enough runs."""
    curve = usable_curve(evidence, arm)
    if not curve:
        return None
    rate = _lowest(curve, LOSS)
    return rate, {run.seed: run for run in curve[rate]}


def better_beyond(evidence: Evidence, arm: str, measure: Measure = NLL) -> str:
    """Return whether "higher" or "lower" rates than those run may be better for an arm; empty if neither.

    They may if the mean of a measure is lowest at that end of its rates. A single rate whose runs are finite says
    "higher".
    """
    curve = usable_curve(evidence, arm)
    if not curve:
        return ""
    best = _lowest(curve, measure)
    if best == max(curve) and all(map(math.isfinite, map(measure, curve[best]))):
        return "higher"
    return "lower" if best == min(curve) else ""


def _lowest(curve: Mapping[Rate, Sequence[Run]], measure: Measure) -> Rate:
    """Return the rate with the lowest mean of a measure; the lowest of several."""
    return min(curve, key=lambda rate: (fmean(map(measure, curve[rate])), rate))


class Difference(NamedTuple):
    """The numbers of two arms' seeds that train at a rate, and the p-value of Fisher's exact test on them."""

    p_value: float
    rate: Rate
    first: Count
    second: Count


def significant(evidence: Evidence, first: str, second: str) -> Difference | None:
    """Return the most significant difference among the rates at which more of the first arm's seeds train, if any.

    Rates at which one of them has fewer than `SEEDS` do not count.
    """
    curves = evidence.curve(first), evidence.curve(second)
    differences = []
    for rate in curves[0].keys() & curves[1].keys():
        one, other = (Count.of(evidence.trained, curve[rate]) for curve in curves)
        if one.share > other.share and min(one.runs, other.runs) >= SEEDS:
            differences.append(Difference(fisher_exact(*one, *other), rate, one, other))
    return min((found for found in differences if found.p_value < SIGNIFICANT), default=None)
