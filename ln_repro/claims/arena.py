"""Every scheme under one protocol: same data, length and learning rates, with and without warm-up."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, geometric_mean

import numpy as np

from ln_repro.claims.ceilings import Ceiling, best_rate, ceiling
from ln_repro.claims.evidence import Evidence, Rate
from ln_repro.claims.intervals import Interval
from ln_repro.claims.metrics import VALID_LOSS, at, reached
from ln_repro.claims.probes import uneven_gradients
from ln_repro.claims.sensitivity import arm_sensitivity, shared_rates
from ln_repro.records.archive import Run

LEAST_SCHEMES = 3
"""Minimum number of schemes to show; Pre-LN and Post-LN alone are compared by the arms and the rates."""
REFERENCE = "preln"
RANK_SAMPLES = 10_000
"""Number of bootstrap samples for ranks."""
LEAST_BATCHES = 5
"""Minimum number of mini-batches per probe: the norm of a mean over fewer is mostly noise."""
PART = 0.5
"""Epochs are counted until the validation loss that Pre-LN has after this part of its training."""
UNRAMPED = {"preln": "preln_nowarm_anchored"}
"""The arm without warm-up if it is not named ``SCHEME_nowarm``: the one with the same tail as with warm-up."""


@dataclass(frozen=True)
class Entry:
    """The results of a scheme, at the arm and the learning rate with its lowest mean validation loss.

    ``improvement`` is the probability that its BLEU is higher than that of Pre-LN, for one random seed of each (Agarwal
    et al. 2021); NaN without runs of Pre-LN. ``epochs`` is the mean number of epochs to the reference loss over that of
    Pre-LN; infinite if some run does not reach it.
    """

    scheme: str  # its name in `conf/norm`
    arm: str
    rate: Rate
    runs: Sequence[Run]  # in the order of their seeds
    rank: Interval  # 95 % bootstrap interval of its rank by mean BLEU
    improvement: float
    epochs: float
    without: Ceiling  # without warm-up
    with_ramp: Ceiling
    sensitivity: float | None  # over the rates that all schemes share, without warm-up, in bits; None if unknown
    unevenness: tuple[float, float] | None  # before training and the largest during it; geometric means over runs

    @property
    def bleus(self) -> list[float]:
        """The BLEU scores of its best runs."""
        return [run.bleu for run in self.runs]


def arms_of(scheme: str) -> tuple[str, str]:
    """Return the arms of a scheme without and with warm-up."""
    return UNRAMPED.get(scheme, f"{scheme}_nowarm"), f"{scheme}_warm"


def arena(evidence: Evidence) -> list[Entry]:
    """Return an entry for each scheme with enough seeds at some rate, ordered by mean BLEU at its best rate."""
    bests = {}
    for scheme in sorted({arm.partition("_")[0] for arm in evidence.rates}):
        arms = [(arm, best[0], [*best[1].values()]) for arm in arms_of(scheme) if (best := best_rate(evidence, arm))]
        if arms:
            bests[scheme] = min(arms, key=lambda one: fmean(run.loss for run in one[2]))
    if not bests:
        return []
    ranks = _ranks({scheme: [run.bleu for run in runs] for scheme, (_, _, runs) in bests.items()})
    reference = bests[REFERENCE][2] if REFERENCE in bests else []
    rates = shared_rates(evidence, [arms_of(scheme)[0] for scheme in bests])
    entries = []
    for scheme, (arm, rate, runs) in bests.items():
        without, with_ramp = arms_of(scheme)
        sensitivity, _ = arm_sensitivity(evidence, without, rates) or (None, None)
        entries.append(Entry(
            scheme, arm, rate, runs, ranks[scheme], _improvement(runs, reference), _epochs(runs, reference),
            ceiling(evidence, without), ceiling(evidence, with_ramp), sensitivity, _unevenness(runs),
        ))  # fmt: skip
    return sorted(entries, key=lambda entry: -fmean(entry.bleus))


def _ranks(scores: Mapping[str, Sequence[float]]) -> dict[str, Interval]:
    """Return the 95 % bootstrap interval of each rank, from seeds drawn with replacement; ties share their mean."""
    draw = np.random.default_rng(0)
    means = np.array([draw.choice(of, (RANK_SAMPLES, len(of))).mean(axis=1) for of in scores.values()])
    better, equal = (compare(means, means[:, None]).sum(axis=1) for compare in (np.greater, np.equal))
    cuts = np.quantile(better + (equal + 1) / 2, [0.025, 0.975], axis=1)
    return {name: (float(low), float(high)) for name, low, high in zip(scores, *cuts, strict=True)}


def _improvement(runs: Sequence[Run], reference: Sequence[Run]) -> float:
    wins = [(one.bleu > other.bleu) + 0.5 * (one.bleu == other.bleu) for one in runs for other in reference]
    return fmean(wins) if wins else math.nan


def _epochs(runs: Sequence[Run], reference: Sequence[Run]) -> float:
    curves = [[one.curve(VALID_LOSS) for one in group] for group in (runs, reference)]
    if not reference or not all(curves[1]):
        return math.nan
    target = fmean(at(curve, PART * max(curve)) for curve in curves[1])
    own, others = (fmean(reached(curve, target, falling=True) for curve in group) for group in curves)
    return own / others if math.isfinite(others) else math.nan


def _unevenness(runs: Sequence[Run]) -> tuple[float, float] | None:
    probed = [[*ratios.values()] for run in runs if len(ratios := uneven_gradients(run, LEAST_BATCHES)) > 1]
    if not probed:
        return None
    return geometric_mean(first for first, *_ in probed), geometric_mean(max(later) for _, *later in probed)
