"""Criteria over learning rates: ceilings, rates at which one arm trains and another fails, and best rates."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from ln_repro.claims.criteria import SEEDS, SHARE, Finding, Metric
from ln_repro.claims.evidence import FAILS, PRETRAINED_TRAINS, TRAINS, Evidence, Rate
from ln_repro.claims.intervals import fisher_exact, interval
from ln_repro.claims.verdict import CONTRADICTED, INCONCLUSIVE, REPRODUCED, verdict
from ln_repro.claims.words import arm_words, region_words, spoken
from ln_repro.records.archive import Run

CURVE_SEEDS = 3
"""Seeds that a rate needs to count for a ceiling; the rates next to the ceiling need `SEEDS`."""
SIGNIFICANT = 0.05
"""The p-value of Fisher's exact test below which two arms differ in how many of their seeds train."""


@dataclass(frozen=True)
class Ceiling:
    """The largest rate of a grid at which an arm trains.

    Attributes:
        rate: the ceiling; None if the arm trains at no rate.
        above: the next rate, at which it does not train; None at the end of the grid: the ceiling may be higher.
        rates: every rate that was run, with the number of seeds that train and of all seeds.
        open: rates next to the ceiling with fewer seeds than a verdict takes.
    """

    rate: Rate | None
    above: Rate | None
    rates: dict[Rate, tuple[int, int]]
    open: tuple[Rate, ...]

    def words(self) -> str:
        """Return it in words."""
        if not self.rates:
            return "not known"
        if self.rate is None:
            return f"below {min(self.rates):g}, the lowest rate run,"
        return f"{'at least ' if self.above is None else ''}{self.rate:g}"


def ceiling(evidence: Evidence, arm: str) -> Ceiling:
    """Return an arm's ceiling; a rate with fewer than `CURVE_SEEDS` runs does not count."""
    counts = {
        rate: (sum(map(evidence.trained, runs)), len(runs))
        for rate, runs in evidence.curve(arm).items()
        if len(runs) >= CURVE_SEEDS
    }
    top = max((rate for rate, (hits, runs) in counts.items() if hits >= SHARE * runs), default=None)
    above = min((rate for rate in counts if top is None or rate > top), default=None)
    few = tuple(rate for rate in (top, above) if rate is not None and counts[rate][1] < SEEDS)
    return Ceiling(top, above, counts, few)


class OverRates:
    """A criterion that takes the runs of its arms at any learning rate."""

    @property
    def arms(self) -> tuple[str, ...]:
        """Named experiments that it needs: none."""
        return ()


@dataclass(frozen=True)
class Ceilings(OverRates):
    """One arm's ceiling is at least so many times that of another, and at some rate more of its seeds train.

    Contradicted if the first's is known and not above the second's.

    Args:
        high, low: the arms.
        factor: how many times.
        masked: whether their runs learnt masked words, and train by their loss.
    """

    high: str
    low: str
    factor: float = 2.0
    masked: bool = False

    def sentence(self) -> str:
        """Return the condition in words."""
        trains = (f"{PRETRAINED_TRAINS:.0%} of the way from the unigram entropy to the best arm's loss" if self.masked
                  else f"BLEU at least {TRAINS} of the best arm's")  # fmt: skip
        return (
            f"learning-rate ceiling (the largest rate at which at least {SHARE:.0%} of the seeds train: {trains}) of "
            f"{arm_words(self.high)} at least {self.factor:g} times that of {arm_words(self.low)}, and at some rate "
            f"more of the former's seeds train (Fisher's exact test, p < {SIGNIFICANT}); contradicted if the "
            "first ceiling is known and not above the second"
        )

    def judge(self, evidence: Evidence) -> Finding:
        """Return what the evidence says of it."""
        high, low = ceiling(evidence, self.high), ceiling(evidence, self.low)
        runs = [run for arm in (self.high, self.low) for of_rate in evidence.curve(arm).values() for run in of_rate]
        words = f"ceiling {high.words()} for {arm_words(self.high)}, {low.words()} for {arm_words(self.low)}"
        if not high.rates or not low.rates:
            return Finding(INCONCLUSIVE, words, f"{CURVE_SEEDS} seeds at every rate (grid=rates)", runs)
        if high.rate is None and low.rate is None:
            return Finding(INCONCLUSIVE, f"{words}: neither trains here", "rates at which one of them trains", runs)
        told = significant(evidence, self.high, self.low)
        words += f"; {told}" if told else "; no rate at which more of the former's seeds train"
        few = sorted({*high.open, *low.open})
        if few:
            rates = ", ".join(f"{rate:g}" for rate in few)
            return Finding(INCONCLUSIVE, words, f"{SEEDS} seeds at {rates}", runs)
        least = low.rate if low.rate is not None else low.above  # where none trains, the lowest rate run
        apart = low.above is not None and high.rate is not None and least and high.rate >= self.factor * least
        if apart and told:
            return Finding(REPRODUCED, words, None, runs)
        if high.above is not None and low.rate is not None and (high.rate or 0.0) <= low.rate:
            return Finding(CONTRADICTED, words, None, runs)
        needs = "higher rates" if None in (high.above, low.above) else "rates between the two ceilings"
        if apart:
            needs = f"more seeds at {high.rate:g}: how many train may differ by chance"
        return Finding(INCONCLUSIVE, words, needs, runs)


@dataclass(frozen=True)
class TrainsWhereFails(OverRates):
    """At some rate one arm trains and another fails, and the two differ by Fisher's test."""

    trains: str
    fails: str

    def sentence(self) -> str:
        """Return the condition in words."""
        return (
            f"at some rate {arm_words(self.trains)} trains (BLEU at least {TRAINS} of the best arm's) and "
            f"{arm_words(self.fails)} fails (below {FAILS} of it), each in at least {SHARE:.0%} of the seeds, and they "
            f"differ (Fisher's exact test, p < {SIGNIFICANT})"
        )

    def judge(self, evidence: Evidence) -> Finding:
        """Return what the evidence says of it."""
        one, other = evidence.curve(self.trains), evidence.curve(self.fails)
        shared = [rate for rate in one if len(one[rate]) >= CURVE_SEEDS and len(other.get(rate, ())) >= CURVE_SEEDS]
        runs = [run for rate in shared for run in (*one[rate], *other[rate])]
        if not shared:
            return Finding(INCONCLUSIVE, "", f"{SEEDS} seeds at a rate that both were run at", runs)
        for rate in shared:
            hits, fails = sum(map(evidence.trained, one[rate])), sum(map(evidence.failed, other[rate]))
            if (
                hits >= SHARE * len(one[rate])
                and fails >= SHARE * len(other[rate])
                and _fisher(evidence, one[rate], other[rate]) < SIGNIFICANT
            ):
                words = (f"at {rate:g} {arm_words(self.trains)} trains in {hits} of {len(one[rate])}, "
                         f"{arm_words(self.fails)} fails in {fails} of {len(other[rate])}")  # fmt: skip
                return Finding(REPRODUCED, words, None, runs)
        whole = all(len(curve[rate]) >= SEEDS for curve in (one, other) for rate in shared)
        found, needs = (CONTRADICTED, None) if whole else (INCONCLUSIVE, f"{SEEDS} seeds at every rate")
        words = f"{arm_words(self.trains)} trains and {arm_words(self.fails)} fails at none of {len(shared)} rates"
        return Finding(found, words, needs, runs)


@dataclass(frozen=True)
class BestRates(OverRates):
    """A metric of one arm at its best rate minus that of another at its best rate lies in a region.

    The best rate is the one of lowest mean validation loss, among those with `CURVE_SEEDS` runs.
    """

    metric: Metric
    first: str
    second: str
    low: float = -math.inf
    high: float = math.inf

    def sentence(self) -> str:
        """Return the condition in words."""
        words = self.metric.minus().words.format(arm_words(self.first), arm_words(self.second))
        return f"{words}, each at its rate of lowest validation loss: {region_words(self.low, self.high)}"

    def judge(self, evidence: Evidence) -> Finding:
        """Return what the evidence says of it."""
        best = [_best_rate(evidence, arm) for arm in (self.first, self.second)]
        if None in best:
            return Finding(INCONCLUSIVE, "", f"{SEEDS} seeds at the best rate of both arms")
        (rate, one), (other_rate, other) = (found for found in best if found)
        shared = sorted({*one} & {*other})
        needs = f"{SEEDS} seeds at {rate:g} and {other_rate:g}" if len(shared) < SEEDS else None
        if not shared:
            return Finding(INCONCLUSIVE, "", needs)
        values = [self.metric.of(one[seed]) - self.metric.of(other[seed]) for seed in shared]
        words = (f"{self.metric.minus().words.format(arm_words(self.first), arm_words(self.second))} "
                 f"{spoken(values)} (at {rate:g} and {other_rate:g})")  # fmt: skip
        judged = verdict(interval(values), (self.low, self.high))
        if needs:
            judged = INCONCLUSIVE
        elif judged == INCONCLUSIVE:
            needs = "more seeds: the interval crosses the edge"
        return Finding(judged, words, needs, [*one.values(), *other.values()])


def significant(evidence: Evidence, one: str, other: str) -> str:
    """Return the rate at which one arm most clearly trains more often than another, in words; else nothing."""
    first, second = evidence.curve(one), evidence.curve(other)
    found = [
        (_fisher(evidence, first[rate], second[rate]), rate)
        for rate in first
        if rate in second and _share(evidence, first[rate]) > _share(evidence, second[rate])
    ]
    if not found or min(found)[0] >= SIGNIFICANT:
        return ""
    p_value, rate = min(found)
    counts = " and ".join(f"{sum(map(evidence.trained, runs))} of {len(runs)}" for runs in (first[rate], second[rate]))
    return f"at {rate:g} {counts} seeds train (Fisher's p = {p_value:.2g})"


def _share(evidence: Evidence, runs: Sequence[Run]) -> float:
    return sum(map(evidence.trained, runs)) / len(runs)


def _fisher(evidence: Evidence, one: Sequence[Run], other: Sequence[Run]) -> float:
    """Return the p-value of Fisher's exact test on how many runs of two groups train."""
    hits = [sum(map(evidence.trained, runs)) for runs in (one, other)]
    return fisher_exact(hits[0], len(one), hits[1], len(other))


def _best_rate(evidence: Evidence, arm: str) -> "tuple[Rate, dict[int, Run]] | None":
    """Return the rate of lowest mean validation loss, and its runs by seed."""
    curve = {rate: runs for rate, runs in evidence.curve(arm).items() if len(runs) >= CURVE_SEEDS}
    rate = min(curve, key=lambda rate: fmean(run.loss for run in curve[rate]), default=None)
    return None if rate is None else (rate, {run.seed: run for run in curve[rate]})
