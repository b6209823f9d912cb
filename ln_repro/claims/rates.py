"""The peak learning rates at which an arm trains, and a multiverse analysis of MT-1.

That is (Steegen et al. 2016) the verdict under each combination of choices that could have been made as well.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean

from ln_repro.claims.evidence import Evidence, Rate, Runs
from ln_repro.claims.intervals import CONTRADICTED, INCONCLUSIVE, REPRODUCED, SIGNIFICANT, fisher_exact
from ln_repro.claims.metrics import SHARE, TOKENISED, Count
from ln_repro.records.archive import Run

CURVE_SEEDS = 3  # minimum number of seeds for a rate to count
LIMITS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.98)  # parts of the best arm's mean score at which a run trains, for the multiverse
SHARES = (0.6, 0.8, 1.0)  # shares of the seeds that must train if an arm does
METRICS: dict[str, Callable[[Evidence, Run], float]] = {
    "BLEU at the lowest loss": lambda evidence, run: run.bleu,
    "BLEU after the last epoch": lambda evidence, run: [0.0, *run.curve(TOKENISED).values()][-1],
    "highest BLEU": lambda evidence, run: max(run.curve(TOKENISED).values(), default=0.0),
    "skill by NLL": lambda evidence, run: max(0.0, evidence.skill(run)),
}
FACTOR = 2.0  # ratio of the largest rates at which two arms train, at least, if they differ
Scores = dict[Rate, list[float]]  # the scores of an arm by rate


def usable_curve(evidence: Evidence, arm: str) -> dict[Rate, list[Run]]:
    """Return the runs of an arm by learning rate, without rates that have fewer than `CURVE_SEEDS`."""
    return {rate: runs for rate, runs in evidence.curve(arm).items() if len(runs) >= CURVE_SEEDS}


def lowest_loss(curve: Mapping[Rate, Sequence[Run]]) -> Rate:
    return min(curve, key=lambda rate: (fmean(run.loss for run in curve[rate]), rate))


def best_rate(evidence: Evidence, arm: str) -> tuple[Rate, Runs] | None:
    """Return the rate of lowest loss and its runs by seed; None if no rate has enough runs."""
    curve = usable_curve(evidence, arm)
    return (rate := lowest_loss(curve), {run.seed: run for run in curve[rate]}) if curve else None


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

    @property
    def octaves(self) -> float:
        """The width, in factors of two of the rate."""
        return math.log2(self.high / self.low)

    def __str__(self) -> str:
        return f"{'<' if self.open[0] else ''}{self.low:g}-{self.high:g}{'+' if self.open[1] else ''}"


def usable_range(evidence: Evidence, arm: str) -> Range | None:
    """Return the usable range of an arm, in which at least `SHARE` of the seeds train; None if it trains nowhere."""
    counts = {rate: Count.of(evidence.trained, runs) for rate, runs in usable_curve(evidence, arm).items()}
    trains = [rate for rate, count in counts.items() if count.share >= SHARE]
    if not trains:
        return None
    low, high = min(trains), max(trains)
    return Range(low, high, (low == min(counts), high == max(counts)))


def multiverse(evidence: Evidence, warm: str, without: str) -> Counter[str]:
    """Return how many combinations of limit, share and metric lead to each verdict; none where an arm has one rate."""
    verdicts = Counter[str]()
    curves = {arm: usable_curve(evidence, arm) for arm in evidence.rates}
    if min(len(curves.get(arm, ())) for arm in (warm, without)) < 2:
        return verdicts
    for metric in METRICS.values():
        scores = {
            arm: {rate: [metric(evidence, run) if run.finite else 0.0 for run in runs] for rate, runs in curve.items()}
            for arm, curve in curves.items()
        }
        best = max(fmean(values) for of_arm in scores.values() for values in of_arm.values())
        if best:
            verdicts.update(
                variant(scores[warm], scores[without], limit * best, share) for limit, share in product(LIMITS, SHARES)
            )
    return verdicts


def variant(warm: Scores, without: Scores, limit: float, share: float) -> str:
    """Return the verdict by the largest rates at which a share of an arm's seeds reach a score of ``limit``."""
    with_ramp, no_ramp = (
        {rate: Count(sum(score >= limit for score in scores), len(scores)) for rate, scores in of_arm.items()}
        for of_arm in (warm, without)
    )
    high, low = (
        max((rate for rate, count in counts.items() if count.share >= share), default=None)
        for counts in (with_ramp, no_ramp)
    )
    differ = any(
        fisher_exact(*with_ramp[rate], *no_ramp[rate]) < SIGNIFICANT
        for rate in warm.keys() & without.keys()
        if with_ramp[rate].share > no_ramp[rate].share
    )
    if high is not None and differ and high >= FACTOR * (low or min(without)):
        return REPRODUCED
    censored = high in (None, max(warm)) or low in (None, max(without))
    return CONTRADICTED if high == low and not censored else INCONCLUSIVE
