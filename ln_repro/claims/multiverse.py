"""The verdict on MT-1 for every combination of choices that a rule must make."""

from collections import Counter
from collections.abc import Callable
from itertools import product
from statistics import fmean

from ln_repro.claims.effects import Count
from ln_repro.claims.evidence import Evidence, Rate
from ln_repro.claims.intervals import fisher_exact
from ln_repro.claims.metrics import TOKENISED
from ln_repro.claims.ranges import usable_curve
from ln_repro.claims.rates import SIGNIFICANT
from ln_repro.claims.verdict import CONTRADICTED, INCONCLUSIVE, REPRODUCED
from ln_repro.records.archive import Run

LIMITS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.98)
"""Parts of the best arm's mean score at which a run trains."""
SHARES = (0.6, 0.8, 1.0)
"""Shares of the seeds that must train if an arm does."""
METRICS: dict[str, Callable[[Evidence, Run], float]] = {
    "BLEU at the lowest loss": lambda evidence, run: run.bleu,
    "BLEU after the last epoch": lambda evidence, run: [0.0, *run.curve(TOKENISED).values()][-1],
    "highest BLEU": lambda evidence, run: max(run.curve(TOKENISED).values(), default=0.0),
    "skill by NLL": lambda evidence, run: max(0.0, evidence.skill(run)),
}
FACTOR = 2.0
"""Ratio of the largest rates at which two arms train, at least, if they differ."""
Scores = dict[Rate, list[float]]
"""The scores of an arm by rate, relative to those of the best arm."""


def multiverse(evidence: Evidence, warm: str, without: str) -> Counter[str]:
    """Return how many combinations of limit, share and metric lead to each verdict; empty without runs of both arms."""
    verdicts = Counter[str]()
    curves = {arm: usable_curve(evidence, arm) for arm in evidence.rates}
    for metric in METRICS.values() if curves.get(warm) and curves.get(without) else ():
        scores = {arm: {rate: [metric(evidence, run) if run.finite else 0.0 for run in runs]
                        for rate, runs in curve.items()} for arm, curve in curves.items()}  # fmt: skip
        best = max(fmean(values) for of_arm in scores.values() for values in of_arm.values())
        if best:
            with_ramp, no_ramp = ({rate: [value / best for value in values] for rate, values in scores[arm].items()}
                                  for arm in (warm, without))  # fmt: skip
            verdicts.update(variant(with_ramp, no_ramp, limit, share) for limit, share in product(LIMITS, SHARES))
    return verdicts


def variant(warm: Scores, without: Scores, limit: float, share: float) -> str:
    """Return the verdict for one limit and share, by the largest rates at which the arms train."""
    counts = [{rate: Count(sum(score >= limit for score in scores), len(scores)) for rate, scores in of_arm.items()}
              for of_arm in (warm, without)]  # fmt: skip
    high, low = (max((rate for rate, count in of_arm.items() if count.share >= share), default=None)
                 for of_arm in counts)  # fmt: skip
    shared = counts[0].keys() & counts[1].keys()
    differ = any(fisher_exact(*counts[0][rate], *counts[1][rate]) < SIGNIFICANT for rate in shared
                 if counts[0][rate].share > counts[1][rate].share)  # fmt: skip
    if high is not None and differ and high >= FACTOR * (low or min(without)):
        return REPRODUCED
    censored = high in (None, max(warm)) or low in (None, max(without))
    return CONTRADICTED if high == low and not censored else INCONCLUSIVE
