"""Criteria that compare two arms over all of their learning rates; they require no run at an arm's own rate."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from ln_repro.claims.criteria import Finding, Within, saturated
from ln_repro.claims.effects import SEEDS, SHARE, Count, Effect
from ln_repro.claims.evidence import FAILED_BITS, FAILS, TRAINED_BITS, TRAINS, Evidence, Rate
from ln_repro.claims.intervals import Interval, fisher_exact
from ln_repro.claims.lr50 import Lr50, lr50
from ln_repro.claims.metrics import BLEU, NLL
from ln_repro.claims.ranges import CURVE_SEEDS, at_edge, best_rate, usable_curve
from ln_repro.claims.verdict import CONTRADICTED, INCONCLUSIVE, REPRODUCED
from ln_repro.claims.words import arm_words
from ln_repro.records.archive import Run

HIGHER, NO_HIGHER = 1.5, 1.25
"""An LR50 is higher than another if the interval of the ratio lies above the first, and is not if below the second."""
SIGNIFICANT = 0.05
"""Significance level of Fisher's exact test, for all rates together."""
NOT_WORSE = 1.0
"""BLEU that an arm may have less than another without counting as worse."""
NEARLY_NOTHING = 1 / 3
"""Part of the BLEU with warm-up below which an arm's BLEU is "just above 0"."""
STARVED = -2.0
"""BLEU that leaving out the ramp may cost if the effect of "no warm-up" is that of the lower rates."""
NOTHING_TRAINS = "nothing trains here"


@dataclass(frozen=True)
class OverRates:
    """A comparison of two arms over all of their learning rates."""

    first: str
    second: str

    arms = ()

    @property
    def compared(self) -> tuple[str, ...]:
        return self.first, self.second

    def missing(self, evidence: Evidence) -> Finding | None:
        """Return the result if an arm was not run."""
        arms = [arm for arm in self.compared if not evidence.curve(arm)]
        return Finding(INCONCLUSIVE, needs=f"runs of {', '.join(arms)}") if arms else None

    def most_seeds(self, evidence: Evidence) -> int:
        """Return the largest number of seeds that all arms have at rates of their own."""
        return min(max(map(len, evidence.curve(arm).values()), default=0) for arm in self.compared)


@dataclass(frozen=True)
class RateFactor(OverRates):
    """The first arm's LR50 is higher than the second's, and at some rate more of its seeds train.

    Fisher's exact test is made at every rate that enters both LR50s, and its level divided by their number. A second
    arm that trains nowhere and is best at the highest of its rates may be under-trained, which decides nothing.
    """

    masked: bool = False  # whether the task is masked LM, where a run trains according to its loss

    def sentence(self) -> str:
        trains = (f"NLL {TRAINED_BITS} bits below the unigram entropy, and fails within {FAILED_BITS} bits of it"
                  if self.masked else f"BLEU at least {TRAINS} of the best arm's, and fails below {FAILS}")  # fmt: skip
        return (
            f"LR50 (the peak rate at which half of the seeds train: {trains}) of {arm_words(self.first)} over that of "
            f"{arm_words(self.second)}: 95 % interval above {HIGHER:g}, and at some rate the two differ (Fisher's "
            f"exact test, p < {SIGNIFICANT} over the number of rates that enter both LR50s); contradicted below "
            f"{NO_HIGHER:g}"
        )

    def judge(self, evidence: Evidence) -> Finding:
        first, second = lr50(evidence, self.first), lr50(evidence, self.second)
        if first is None or second is None:
            return self.missing(evidence) or Finding(INCONCLUSIVE)
        value, interval = first.over(second)
        effect = None if math.isnan(value) else Effect(value, interval, "x{} in rate", ".2g")
        p_value, rate, levels = self.fisher(evidence, first, second)
        text = f"{effect or 'no rate at which either trains'}"
        if rate is not None:
            counts = (Count.of(evidence.trained, evidence.curve(arm)[rate]) for arm in self.compared)
            text += f"; at {rate:g}, {' against '.join(map(str, counts))} train (p = {p_value:.1g})"
        seeds, runs = self.most_seeds(evidence), evidence.of_arms(self.compared)
        if not second.median and at_edge(evidence, self.second) == "higher":
            needs = f"higher rates of {arm_words(self.second)}"
        elif effect and interval[0] > HIGHER and p_value < SIGNIFICANT / levels:
            return Finding(REPRODUCED, effect, text, runs=runs, seeds=seeds)
        elif effect and interval[1] < NO_HIGHER:
            return Finding(CONTRADICTED, effect, text, runs=runs, seeds=seeds)
        else:
            needs = self.needed(evidence, first)
        note = NOTHING_TRAINS if not first.median and not second.median else ""
        return Finding(INCONCLUSIVE, effect, text, needs, runs, seeds, note)

    def needed(self, evidence: Evidence, first: Lr50) -> str:
        """Return what would make the interval narrower, or the p-value smaller."""
        few = {rate for arm in self.compared for rate, runs in evidence.curve(arm).items() if len(runs) < SEEDS}
        if few:
            return f"{SEEDS} seeds at {', '.join(f'{rate:g}' for rate in sorted(few))}"
        if math.isinf(first.median):
            return f"rates of {arm_words(self.first)} above {first.highest:g}"
        return f"{2 * self.most_seeds(evidence)} seeds"

    def fisher(self, evidence: Evidence, first: Lr50, second: Lr50) -> tuple[float, Rate | None, int]:
        """Return the least p-value, its rate, and the number of rates that enter both LR50s."""
        shared = sorted(first.counts.keys() & second.counts.keys())
        p_values = {rate: fisher_exact(*first.counts[rate], *second.counts[rate]) for rate in shared
                    if first.counts[rate].share > second.counts[rate].share}  # fmt: skip
        rate = min(p_values, key=lambda rate: p_values[rate], default=None)
        return (1.0 if rate is None else p_values[rate]), rate, max(1, len(shared))


@dataclass(frozen=True)
class AtBestRates(OverRates):
    """The first arm's BLEU is not worse than the second's by `NOT_WORSE`, each at its rate of lowest validation loss.

    Whether it is not better either is reported. No verdict where BLEU is saturated; the NLL is shown there.
    """

    def sentence(self) -> str:
        return (
            f"BLEU of {arm_words(self.first)} minus that of {arm_words(self.second)}, each at its rate of lowest "
            f"validation loss: not worse by {NOT_WORSE:g} (95 % interval above {-NOT_WORSE:g}; contradicted below it), "
            "the second's best rate inside those run; whether it is not better by as much is reported; no verdict if "
            "the best arm's BLEU is above 95 (saturated)"
        )

    def judge(self, evidence: Evidence) -> Finding:
        bests = [best_rate(evidence, arm) for arm in self.compared]
        if bests[0] is None or bests[1] is None:
            return self.missing(evidence) or Finding(INCONCLUSIVE, needs=f"{SEEDS} seeds at the best rate")
        (rate, runs), (other_rate, others) = bests[0], bests[1]
        pairs = Evidence({self.first: runs, self.second: others})
        measure = NLL if saturated(evidence, self.compared) else BLEU
        found = Within(measure.minus(), self.compared, -NOT_WORSE, math.inf).judge(pairs)
        used, seeds = [*runs.values(), *others.values()], len({*runs} & {*others})
        if not found.effect or measure is NLL:
            needs = None if measure is NLL else f"{SEEDS} seeds"
            return Finding(INCONCLUSIVE, found.effect, "", needs, used, seeds, "saturated" if measure is NLL else "")
        better = self.no_better(found.effect.interval)
        text = f"{found.effect} (at {rate:g} and {other_rate:g}); {better}"
        result, needs = found.verdict, found.needs
        if seeds < SEEDS:
            result, needs = INCONCLUSIVE, f"{SEEDS} seeds at {rate:g} and {other_rate:g}"
        elif result == REPRODUCED and (side := at_edge(evidence, self.second)):
            result, needs = INCONCLUSIVE, f"{side} rates of {arm_words(self.second)}"
        return Finding(result, found.effect, text, needs, used, seeds)

    def no_better(self, interval: Interval) -> str:
        """Return whether the first arm is not better by `NOT_WORSE`."""
        if interval[1] < NOT_WORSE:
            return f"not better by {NOT_WORSE:g}"
        return f"better by {NOT_WORSE:g}" if interval[0] > NOT_WORSE else f"may be better by {NOT_WORSE:g}"


def _means(evidence: Evidence, arm: str) -> dict[Rate, float]:
    return {rate: fmean(run.bleu for run in runs) for rate, runs in usable_curve(evidence, arm).items()}


@dataclass(frozen=True)
class JustAboveNothing(OverRates):
    """Without warm-up (the first arm) BLEU stays just above 0 at every rate, with it (the second) Adam is better."""

    adam: str

    @property
    def compared(self) -> tuple[str, ...]:
        return self.first, self.second, self.adam

    def sentence(self) -> str:
        return (
            f"at every rate, the mean BLEU of {arm_words(self.first)} is below a third of the best of "
            f"{arm_words(self.second)}, and that is below the best of {arm_words(self.adam)}"
        )

    def judge(self, evidence: Evidence) -> Finding:
        without, warm, adam = (_means(evidence, arm) for arm in self.compared)
        runs, seeds = evidence.of_arms(self.compared), self.most_seeds(evidence)
        if not (without and warm and adam):
            few = Finding(INCONCLUSIVE, needs=f"{CURVE_SEEDS} seeds of {', '.join(self.compared)}", runs=runs)
            return self.missing(evidence) or few
        worst, best = max(without.values()), max(warm.values())
        holds = worst < NEARLY_NOTHING * best and best < max(adam.values())
        effect = Effect(worst - best, unit="{} BLEU", digits="+.1f")
        text = f"{worst:.1f} against {best:.1f} BLEU with warm-up, Adam {max(adam.values()):.1f}"
        return Finding(REPRODUCED if holds else CONTRADICTED, effect, text, runs=runs, seeds=seeds,
                       note=_trains_nowhere(evidence, self.compared[:2]))  # fmt: skip


@dataclass(frozen=True)
class NotStarved(OverRates):
    """Without the ramp alone (the first arm), the best BLEU is lower than with it; otherwise the effect is starvation.

    The paper's reading of "no warm-up" also lowers all later rates, which starves an arm of learning rate.
    """

    def sentence(self) -> str:
        return (
            f"BLEU of {arm_words(self.first)} minus that of {arm_words(self.second)}, each at its best rate: 95 % "
            f"interval below {STARVED:g}; contradicted above it: the effect is starvation"
        )

    def judge(self, evidence: Evidence) -> Finding:
        first, second = (best_by_bleu(evidence, arm) for arm in self.compared)
        runs = evidence.of_arms(self.compared)
        if not first or not second:
            few = Finding(INCONCLUSIVE, needs=f"{CURVE_SEEDS} seeds of {', '.join(self.compared)}", runs=runs)
            return self.missing(evidence) or few
        pairs = Evidence({self.first: first, self.second: second})
        found = Within(BLEU.minus(), self.compared, -math.inf, STARVED).judge(pairs)
        words = ["starvation"] * (found.verdict == CONTRADICTED) + [_trains_nowhere(evidence, self.compared)]
        return Finding(found.verdict, found.effect, "", found.needs, runs, found.seeds,
                       ", ".join(filter(None, words)))  # fmt: skip


def best_by_bleu(evidence: Evidence, arm: str) -> dict[int, Run]:
    """Return the runs by seed at the rate with the highest mean BLEU; none if no rate has enough runs."""
    means = _means(evidence, arm)
    return {run.seed: run for run in evidence.curve(arm)[max(means, key=lambda rate: means[rate])]} if means else {}


def _trains_nowhere(evidence: Evidence, arms: Iterable[str]) -> str:
    counts = [Count.of(evidence.trained, runs) for arm in arms for runs in usable_curve(evidence, arm).values()]
    return "" if any(count.share >= SHARE for count in counts) else NOTHING_TRAINS
