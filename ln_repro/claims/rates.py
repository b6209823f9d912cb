"""Criteria that compare two arms over all of their learning rates."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ln_repro.claims.ceilings import (
    CURVE_SEEDS,
    LOSS,
    NLL,
    SIGNIFICANT,
    Ceiling,
    Difference,
    Measure,
    alone,
    best_rate,
    better_beyond,
    ceiling,
    listed,
    significant,
    undecided,
    usable_curve,
)
from ln_repro.claims.criteria import SEEDS, SHARE, Count, Finding, Metric, Within
from ln_repro.claims.evidence import FAILS, PRETRAINED_TRAINS, TRAINS, Evidence
from ln_repro.claims.intervals import Interval, fisher_exact
from ln_repro.claims.verdict import CONTRADICTED, INCONCLUSIVE, REPRODUCED
from ln_repro.claims.words import arm_words, contrast_words

FACTOR = 2.0
"""Minimum ratio of two ceilings that are said to differ."""
NEITHER = "neither trains here"
"""The answer where no rate that was run is enough for either arm (first amendment of the rules)."""


def further_rates(evidence: Evidence, arms: Iterable[str], measure: Measure = NLL) -> str | None:
    """Return the rates that may be better for these arms than those run, by a measure; None if none may."""
    sides = ((better_beyond(evidence, arm, measure), arm) for arm in arms)
    return " and ".join(f"{side} rates of {arm_words(arm)}" for side, arm in sides if side) or None


@dataclass(frozen=True)
class OverRates:
    """A criterion that compares two arms over all of their learning rates; it requires no run at an arm's own rate."""

    first: str
    second: str

    arms = ()

    @property
    def compared(self) -> tuple[str, str]:
        return self.first, self.second


@dataclass(frozen=True)
class Ceilings(OverRates):
    """The first arm's ceiling is at least `FACTOR` times the second's, and at some rate more of its seeds train.

    Contradicted if the first ceiling is known and not above the second, as far as the rates between them have been run.
    """

    masked: bool = False  # whether the task is masked LM, where a run trains according to its loss

    def sentence(self) -> str:
        trains = (f"{PRETRAINED_TRAINS:.0%} of the way from the unigram entropy to the best arm's loss" if self.masked
                  else f"BLEU at least {TRAINS} of the best arm's")  # fmt: skip
        return (
            f"learning-rate ceiling (the largest rate at which at least {SHARE:.0%} of the seeds train: {trains}) of "
            f"{arm_words(self.first)} at least {FACTOR:g} times that of {arm_words(self.second)}, and at some rate "
            f"more of the former's seeds train (Fisher's exact test, p < {SIGNIFICANT}); contradicted if the "
            "first ceiling is known and not above the second; a ceiling is not known if the arm trains at the highest "
            "rate, or at none and has its lowest NLL at the highest of several"
        )

    def judge(self, evidence: Evidence) -> Finding:
        if missing := [arm for arm in self.compared if not evidence.curve(arm)]:
            return Finding(INCONCLUSIVE, "", f"runs of {', '.join(missing)}")
        high, low = ceiling(evidence, self.first), ceiling(evidence, self.second)
        runs = [run for arm in self.compared for of_rate in evidence.curve(arm).values() for run in of_rate]
        words = f"ceiling {high.words()} for {arm_words(self.first)}, {low.words()} for {arm_words(self.second)}"
        so_far = self._so_far(evidence)
        if not high.rates or not low.rates:
            words = "; ".join(filter(None, (words, so_far)))
            seeds = f"{CURVE_SEEDS} seeds at every rate, and {SEEDS} at those that decide"
            return Finding(INCONCLUSIVE, words, seeds, runs, so_far)
        if high.rate is None and low.rate is None:
            few = {rate for arm in self.compared for rate, of in evidence.curve(arm).items() if len(of) < CURVE_SEEDS}
            needs = f"{CURVE_SEEDS} seeds at {listed(few)}" if few else further_rates(evidence, self.compared)
            if not needs and (close := {rate for arm in self.compared for rate in undecided(evidence, arm)}):
                needs = f"{SEEDS} seeds at {listed(close)}"
            answer = "" if needs else NEITHER
            return Finding(INCONCLUSIVE, f"{words}: {NEITHER}", needs, runs, answer=answer)
        difference = significant(evidence, *self.compared)
        if difference:
            words += (f"; at {difference.rate:g}, {difference.first} and {difference.second} seeds train "
                      f"(Fisher's p = {difference.p_value:.2g})")  # fmt: skip
        else:
            words += f"; no rate with {SEEDS} seeds of both at which significantly more of the former's seeds train"
        if few := {*high.open, *low.open}:
            return Finding(INCONCLUSIVE, words, f"{SEEDS} seeds at {listed(few)}", runs, so_far)
        apart = (
            high.rate is not None and low.above is not None
            and high.rate >= FACTOR * (low.rate or low.above)  # if the second trains at no rate: the lowest one
        )  # fmt: skip
        if apart and difference:
            return Finding(REPRODUCED, words, None, runs, self._plain(high, low, difference))
        if (low.rate is not None and (high.rate or 0.0) <= low.rate
                and high.above is not None and high.above <= (low.above or math.inf)):  # fmt: skip
            if few := {rate for rate in undecided(evidence, self.first) if low.rate < rate < high.above}:
                return Finding(INCONCLUSIVE, words, f"{SEEDS} seeds at {listed(few)}", runs, so_far)
            return Finding(CONTRADICTED, words, None, runs, self._plain(high, low, difference))
        if apart and high.rate is not None:
            fewest = min(len(evidence.curve(arm).get(high.rate, ())) for arm in self.compared)
            needs = (f"{SEEDS} seeds of both at {high.rate:g}" if fewest < SEEDS
                     else f"more seeds at {high.rate:g}: how many train may differ by chance")  # fmt: skip
            return Finding(INCONCLUSIVE, words, needs, runs, so_far)
        wanted = self._wanted(high, low)
        answer = "" if wanted else f"higher, but by less than {FACTOR:g} times"
        return Finding(INCONCLUSIVE, words, wanted, runs, so_far, answer)

    def _wanted(self, high: Ceiling, low: Ceiling) -> str | None:
        """Return the rates that could decide between two ceilings that are not far enough apart; None if none could."""
        if low.rate is None and low.above is None:
            return f"higher rates of {arm_words(self.second)}"
        if high.above is None or low.above is None:
            return "higher rates"
        if low.rate is None or high.rate is None:
            return "lower rates"
        if high.above > FACTOR * low.rate:
            return f"rates of {arm_words(self.first)} from {FACTOR * low.rate:g} to below {high.above:g}"
        if low.above > high.rate:
            return f"rates of {arm_words(self.second)} from {high.rate:g} to below {low.above:g}"
        return None

    def _so_far(self, evidence: Evidence) -> str:
        """Return how many seeds of each arm train at the rate with the most seeds of both; empty if there is none."""
        curves = [evidence.curve(arm) for arm in self.compared]
        shared = [rate for rate in curves[0] if rate in curves[1]]
        if not shared:
            return ""
        rate = max(shared, key=lambda rate: min(len(curve[rate]) for curve in curves))
        first, second = (Count.of(evidence.trained, curve[rate]) for curve in curves)
        one, other = contrast_words(*self.compared)
        p_value = fisher_exact(*first, *second)
        known = f" (p = {p_value:.1g})" if p_value < SIGNIFICANT else ""
        return f"at {rate:g}, {first} seeds train {one} and {second} {other}{known}"

    def _plain(self, high: Ceiling, low: Ceiling, difference: Difference | None) -> str:
        one, other = contrast_words(*self.compared)
        plain = f"{arm_words(self.first)} trains {high.plain('learning rate')}, {other} {low.plain('rate')}"
        if not difference:
            return plain
        seeds = f"{difference.first} seeds train {one}, {difference.second} {other}"
        return f"{plain}; at {difference.rate:g}, {seeds} (p = {difference.p_value:.1g})"


@dataclass(frozen=True)
class ReportCeiling:
    """An arm's ceiling is reported but does not affect the verdict; it is left out if no rate has enough runs."""

    arm: str

    arms = ()

    @property
    def compared(self) -> tuple[str]:
        return (self.arm,)

    def sentence(self) -> str:
        return ""

    def judge(self, evidence: Evidence) -> Finding:
        curve = usable_curve(evidence, self.arm)
        words = (
            f"for comparison, ceiling {ceiling(evidence, self.arm).words()} for {arm_words(self.arm)}" if curve else ""
        )
        return Finding(REPRODUCED, words, None, [run for runs in curve.values() for run in runs])


@dataclass(frozen=True)
class TrainsWhereFails(OverRates):
    """At some rate the first arm trains and the second fails, and they differ significantly by Fisher's exact test."""

    def sentence(self) -> str:
        return (
            f"at some rate {arm_words(self.first)} trains (BLEU at least {TRAINS} of the best arm's) and "
            f"{arm_words(self.second)} fails (below {FAILS} of it), each in at least {SHARE:.0%} of the seeds, and "
            f"they differ (Fisher's exact test, p < {SIGNIFICANT})"
        )

    def judge(self, evidence: Evidence) -> Finding:
        one, other = usable_curve(evidence, self.first), usable_curve(evidence, self.second)
        shared = [rate for rate in one if rate in other]
        runs = [run for rate in shared for run in (*one[rate], *other[rate])]
        if not shared:
            runs = [run for arm in self.compared for of_rate in evidence.curve(arm).values() for run in of_rate]
            return Finding(INCONCLUSIVE, "", f"{SEEDS} seeds at a rate that both were run at", runs)
        first, second = map(arm_words, self.compared)
        for rate in shared:
            trained, others_trained = (Count.of(evidence.trained, curve[rate]) for curve in (one, other))
            failed = Count.of(evidence.failed, other[rate])
            if trained.most and failed.most and fisher_exact(*trained, *others_trained) < SIGNIFICANT:
                words = f"at {rate:g}, {first} trains in {trained}, {second} fails in {failed}"
                plain = f"at {rate:g}, {first} trains on {trained} seeds and {second} fails on {failed}"
                return Finding(REPRODUCED, words, None, runs, plain)
        words = f"{first} trains and {second} fails at none of {len(shared)} rates"
        if any(len(curve[rate]) < SEEDS for curve in (one, other) for rate in shared):
            return Finding(INCONCLUSIVE, words, f"{SEEDS} seeds at every rate", runs)
        limit = ceiling(evidence, self.first)
        if limit.above is None:
            return Finding(INCONCLUSIVE, words, "higher rates", runs)
        if limit.rate is None and (side := better_beyond(evidence, self.first)):
            return Finding(INCONCLUSIVE, words, f"{side} rates", runs)
        curves = [evidence.curve(arm) for arm in self.compared]
        few = {rate for rate in {*curves[0], *curves[1]}
               if rate <= limit.above and min(len(curve.get(rate, ())) for curve in curves) < SEEDS}  # fmt: skip
        if few:
            return Finding(INCONCLUSIVE, words, f"{SEEDS} seeds of both at {listed(few)}", runs)
        return Finding(CONTRADICTED, words, None, runs)


@dataclass(frozen=True)
class BestRates(OverRates):
    """`Within` for the difference of a metric between two arms, each at its best rate.

    The best rate is the one with the lowest mean validation loss among those with at least `CURVE_SEEDS` runs. At the
    edge of the rates run, it may not be the best: then no difference reproduces the claim, nor, if it is the first
    arm's, contradicts it.
    """

    metric: Metric
    low: float = -math.inf
    high: float = math.inf
    contradicted: Interval | None = None
    neither: str = ""

    def _difference(self, place: str = "") -> Within:
        metric = self.metric.minus()
        metric = replace(metric, plain=f"{place}, {metric.words} is {{value}}")
        return Within(metric, self.compared, self.low, self.high, self.contradicted, self.neither)

    def sentence(self) -> str:
        place = ", each at its rate of lowest validation loss, inside the range of those run:"
        return self._difference().sentence().replace(":", place, 1)

    def judge(self, evidence: Evidence) -> Finding:
        best, other_best = (best_rate(evidence, arm) for arm in self.compared)
        if best is None or other_best is None:
            return Finding(INCONCLUSIVE, "", f"{SEEDS} seeds at the best rate of both arms")
        (rate, one), (other_rate, other) = best, other_best
        rates = " and ".join(f"{rate:g}" for rate in dict.fromkeys((rate, other_rate)))
        few = Finding(INCONCLUSIVE, "", f"{SEEDS} seeds at {rates}")
        if not {*one} & {*other}:
            return few
        only = rate == other_rate and all(len(usable_curve(evidence, arm)) == 1 for arm in self.compared)
        place = f"at {rates}, {alone('rate')}" if only else "at the best rate of each"
        found = self._difference(place).judge(Evidence({self.first: one, self.second: other}))
        decided = found if len({*one} & {*other}) >= SEEDS else few
        deciding = {REPRODUCED: self.compared, CONTRADICTED: self.compared[:1]}.get(decided.verdict, ())
        if needs := further_rates(evidence, deciding, LOSS):
            decided = replace(decided, verdict=INCONCLUSIVE, needs=needs)
        return replace(decided, words=f"{found.words} (at {rates})", runs=[*one.values(), *other.values()],
                       plain=found.plain)  # fmt: skip
