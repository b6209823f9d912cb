"""Criteria that compare arms over a grid of learning rates: ceilings, and each arm's best rate."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from ln_repro.claims.criteria import MORE_SEEDS, SEEDS, SHARE, Finding, Metric
from ln_repro.claims.evidence import FAILS, PRETRAINED_TRAINS, TRAINS, Evidence, Rate
from ln_repro.claims.intervals import fisher_exact, interval
from ln_repro.claims.verdict import CONTRADICTED, INCONCLUSIVE, REPRODUCED, verdict
from ln_repro.claims.words import arm_words, contrast_words, region_words, rounded_mean, spoken
from ln_repro.records.archive import Run

CURVE_SEEDS = 3
"""Minimum number of seeds for a rate to count; a verdict needs `SEEDS` at the rates next to the ceiling."""
SIGNIFICANT = 0.05
"""Significance level of Fisher's exact test on the numbers of seeds that train."""


@dataclass(frozen=True)
class Ceiling:
    """The largest learning rate of a grid at which an arm trains.

    Attributes:
        rate: the ceiling; None if the arm trains at no rate.
        above: the next rate, at which it does not train; None if the grid ends, so that the ceiling may be higher.
        rates: the number of seeds that train and the number of seeds, by rate.
        open: rates next to the ceiling with fewer seeds than a verdict needs.
    """

    rate: Rate | None
    above: Rate | None
    rates: dict[Rate, tuple[int, int]]
    open: tuple[Rate, ...]

    def words(self) -> str:
        """Return the ceiling as text."""
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
    """A criterion that compares arms over all of their learning rates; it requires no run at an arm's own rate."""

    arms: tuple[str, ...] = ()

    @property
    def compared(self) -> tuple[str, str]:
        """The names of the two arms."""
        raise NotImplementedError


@dataclass(frozen=True)
class Ceilings(OverRates):
    """The first arm's ceiling is at least ``factor`` times the second's, and at some rate more of its seeds train.

    Contradicted if the first ceiling is known and not above the second.

    Args:
        high, low: the arms.
        factor: minimum ratio of the ceilings.
        masked: whether the task is masked LM, where a run trains according to its loss.
    """

    high: str
    low: str
    factor: float = 2.0
    masked: bool = False

    @property
    def compared(self) -> tuple[str, str]:
        return self.high, self.low

    def sentence(self) -> str:
        trains = (f"{PRETRAINED_TRAINS:.0%} of the way from the unigram entropy to the best arm's loss" if self.masked
                  else f"BLEU at least {TRAINS} of the best arm's")  # fmt: skip
        return (
            f"learning-rate ceiling (the largest rate at which at least {SHARE:.0%} of the seeds train: {trains}) of "
            f"{arm_words(self.high)} at least {self.factor:g} times that of {arm_words(self.low)}, and at some rate "
            f"more of the former's seeds train (Fisher's exact test, p < {SIGNIFICANT}); contradicted if the "
            "first ceiling is known and not above the second"
        )

    def judge(self, evidence: Evidence) -> Finding:
        high, low = ceiling(evidence, self.high), ceiling(evidence, self.low)
        runs = [run for arm in self.compared for of_rate in evidence.curve(arm).values() for run in of_rate]
        words = f"ceiling {high.words()} for {arm_words(self.high)}, {low.words()} for {arm_words(self.low)}"
        if not high.rates or not low.rates:
            return Finding(INCONCLUSIVE, words, f"{CURVE_SEEDS} seeds at every rate", runs)
        if high.rate is None and low.rate is None:
            return Finding(INCONCLUSIVE, f"{words}: neither trains here", "rates at which one of them trains", runs)
        difference = significant(evidence, self.high, self.low)
        one, other = contrast_words(self.high, self.low)
        limits = [
            f"at rates up to {found.words()}" if found.rate is not None else "at no rate" for found in (high, low)
        ]
        limits[0] = limits[0].replace("rate", "learning rate")
        plain = f"{arm_words(self.high)} trains {limits[0]}, {other} {limits[1]}"
        if difference:
            words += (f"; at {difference.rate:g} {difference.hits} and {difference.other_hits} seeds train "
                      f"(Fisher's p = {difference.p_value:.2g})")  # fmt: skip
            plain += (f"; at {difference.rate:g}, {difference.hits} seeds train {one}, {difference.other_hits} {other} "
                      f"(p = {difference.p_value:.1g})")  # fmt: skip
        else:
            words += "; no rate at which more of the former's seeds train"
        if few := sorted({*high.open, *low.open}):
            rates = ", ".join(f"{rate:g}" for rate in few)
            return Finding(INCONCLUSIVE, words, f"{SEEDS} seeds at {rates}", runs)
        least = low.rate if low.rate is not None else low.above  # if it trains at no rate: the lowest one
        apart = low.above is not None and high.rate is not None and least and high.rate >= self.factor * least
        if apart and difference:
            return Finding(REPRODUCED, words, None, runs, plain)
        if high.above is not None and low.rate is not None and (high.rate or 0.0) <= low.rate:
            return Finding(CONTRADICTED, words, None, runs, plain)
        needs = "higher rates" if None in (high.above, low.above) else "rates between the two ceilings"
        if apart:
            needs = f"more seeds at {high.rate:g}: how many train may differ by chance"
        return Finding(INCONCLUSIVE, words, needs, runs)


@dataclass(frozen=True)
class TrainsWhereFails(OverRates):
    """At some rate the first arm trains and the second fails, and they differ significantly by Fisher's exact test."""

    trains: str
    fails: str

    @property
    def compared(self) -> tuple[str, str]:
        return self.trains, self.fails

    def sentence(self) -> str:
        return (
            f"at some rate {arm_words(self.trains)} trains (BLEU at least {TRAINS} of the best arm's) and "
            f"{arm_words(self.fails)} fails (below {FAILS} of it), each in at least {SHARE:.0%} of the seeds, and they "
            f"differ (Fisher's exact test, p < {SIGNIFICANT})"
        )

    def judge(self, evidence: Evidence) -> Finding:
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
                plain = (f"at {rate:g}, {arm_words(self.trains)} trains on {hits} of {len(one[rate])} seeds and "
                         f"{arm_words(self.fails)} fails on {fails} of {len(other[rate])}")  # fmt: skip
                return Finding(REPRODUCED, words, None, runs, plain)
        whole = all(len(curve[rate]) >= SEEDS for curve in (one, other) for rate in shared)
        found, needs = (CONTRADICTED, None) if whole else (INCONCLUSIVE, f"{SEEDS} seeds at every rate")
        words = f"{arm_words(self.trains)} trains and {arm_words(self.fails)} fails at none of {len(shared)} rates"
        return Finding(found, words, needs, runs)


@dataclass(frozen=True)
class BestRates(OverRates):
    """The difference of a metric between two arms, each at its best rate, lies between ``low`` and ``high``.

    The best rate is the one with the lowest mean validation loss among those with at least `CURVE_SEEDS` runs.
    """

    metric: Metric
    first: str
    second: str
    low: float = -math.inf
    high: float = math.inf

    @property
    def compared(self) -> tuple[str, str]:
        return self.first, self.second

    def sentence(self) -> str:
        words = self.metric.minus().name(self.compared)
        return f"{words}, each at its rate of lowest validation loss: {region_words(self.low, self.high)}"

    def judge(self, evidence: Evidence) -> Finding:
        best, other_best = (best_rate(evidence, arm) for arm in self.compared)
        if best is None or other_best is None:
            return Finding(INCONCLUSIVE, "", f"{SEEDS} seeds at the best rate of both arms")
        (rate, one), (other_rate, other) = best, other_best
        shared = sorted({*one} & {*other})
        needs = f"{SEEDS} seeds at {rate:g} and {other_rate:g}" if len(shared) < SEEDS else None
        if not shared:
            return Finding(INCONCLUSIVE, "", needs)
        values = [self.metric.of(one[seed]) - self.metric.of(other[seed]) for seed in shared]
        words = f"{self.metric.minus().name(self.compared)} {spoken(values)} (at {rate:g} and {other_rate:g})"
        result = INCONCLUSIVE if needs else verdict(interval(values), (self.low, self.high))
        if result == INCONCLUSIVE:
            needs = needs or MORE_SEEDS
        mean, within = rounded_mean(values)
        plain = f"at the best rate of each, {self.metric.minus().name(self.compared)} is {mean}{within}"
        return Finding(result, words, needs, [*one.values(), *other.values()], plain)


class Difference(NamedTuple):
    """A rate, the share of two arms' seeds that train there ("5 of 5"), and the p-value of Fisher's exact test."""

    rate: Rate
    hits: str
    other_hits: str
    p_value: float


def significant(evidence: Evidence, arm: str, other_arm: str) -> Difference | None:
    """Return the most significant difference among the rates at which more of the first arm's seeds train, if any."""
    first, second = evidence.curve(arm), evidence.curve(other_arm)
    shared = [rate for rate in first if rate in second]
    curves = first, second
    hits = {rate: [sum(map(evidence.trained, curve[rate])) for curve in curves] for rate in shared}
    p_values = [(_fisher(evidence, first[rate], second[rate]), rate) for rate in shared
                if hits[rate][0] / len(first[rate]) > hits[rate][1] / len(second[rate])]  # fmt: skip
    if not p_values or min(p_values)[0] >= SIGNIFICANT:
        return None
    p_value, rate = min(p_values)
    one, other = (f"{number} of {len(curve[rate])}" for number, curve in zip(hits[rate], curves, strict=True))
    return Difference(rate, one, other, p_value)


def _fisher(evidence: Evidence, one: Sequence[Run], other: Sequence[Run]) -> float:
    """Return the p-value of Fisher's exact test on the numbers of runs that train."""
    hits = [sum(map(evidence.trained, runs)) for runs in (one, other)]
    return fisher_exact(hits[0], len(one), hits[1], len(other))


def best_rate(evidence: Evidence, arm: str) -> tuple[Rate, dict[int, Run]] | None:
    """Return the rate with the lowest mean validation loss and its runs by seed; None if no rate has enough runs."""
    curve = {rate: runs for rate, runs in evidence.curve(arm).items() if len(runs) >= CURVE_SEEDS}
    rate = min(curve, key=lambda rate: fmean(run.loss for run in curve[rate]), default=None)
    return None if rate is None else (rate, {run.seed: run for run in curve[rate]})
