"""Every scheme under one protocol: same data, length and learning rates, with and without warm-up."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, geometric_mean
from typing import NamedTuple

import numpy as np

from ln_repro.claims.ceilings import Ceiling, best_rate, ceiling
from ln_repro.claims.evidence import Evidence, Rate
from ln_repro.claims.intervals import Interval
from ln_repro.claims.metrics import VALID_LOSS, at, reached
from ln_repro.claims.probes import unevenness_after
from ln_repro.claims.sensitivity import arm_sensitivity, shared_rates
from ln_repro.experiment.name import ArmName
from ln_repro.records.archive import Run

LEAST_SCHEMES = 3
"""Minimum number of schemes to show; Pre-LN and Post-LN alone are compared by the arms and the rates."""
REFERENCE = "preln"
SAMPLES = 10_000
"""Number of bootstrap samples."""
LEAST_BATCHES = 5
"""Minimum number of mini-batches per probe: the norm of a mean over fewer is mostly noise."""
PROBED = (0.15, 0.3, 0.45, 0.6, 0.75, 0.9)
"""Parts of a run after which gradients are compared: runs that are probed more often have no greater maximum."""
PART = 0.5
"""Epochs are counted until the validation loss that Pre-LN has after this part of its training."""
UNRAMPED = {"preln": "preln_nowarm_anchored"}
"""The arm without warm-up if it is not named ``SCHEME_nowarm``: the one with the same tail as with warm-up."""


class Improvement(NamedTuple):
    """The probability that a run of a scheme has a higher BLEU than one of Pre-LN (Agarwal et al. 2021)."""

    mean: float
    interval: Interval  # 95 %, bootstrap over the seeds of both


class Unevenness(NamedTuple):
    """The largest over the smallest gradient of W2 in a decoder layer, as geometric means over runs."""

    start: float
    later: float  # the largest at the points `PROBED`
    runs: int
    batches: int  # of a probe, at least


@dataclass(frozen=True)
class Entry:
    """The results of a scheme, at the arm and the learning rate with its lowest mean validation loss.

    ``epochs`` is the mean number of epochs to the reference loss over that of Pre-LN; infinite if some run does not
    reach it.
    """

    scheme: str  # its name in `conf/norm`
    arm: str
    rate: Rate
    runs: Sequence[Run]  # in the order of their seeds
    rank: Interval  # 95 % bootstrap interval of its rank by mean BLEU
    improvement: Improvement | None  # None for Pre-LN, and without runs of it
    epochs: float
    without: Ceiling  # without warm-up
    with_ramp: Ceiling
    sensitivity: float | None  # over the rates that all schemes share, without warm-up, in bits; None if unknown
    unevenness: Unevenness | None  # None without probes

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
    for scheme in sorted({ArmName.of(arm).scheme for arm in evidence.rates}):
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
            scheme, arm, rate, runs, ranks[scheme], None if runs is reference else _improvement(runs, reference),
            _epochs(runs, reference),
            ceiling(evidence, without), ceiling(evidence, with_ramp), sensitivity, _unevenness(runs),
        ))  # fmt: skip
    return sorted(entries, key=lambda entry: -fmean(entry.bleus))


def _ranks(scores: Mapping[str, Sequence[float]]) -> dict[str, Interval]:
    """Return the 95 % bootstrap interval of each rank, from seeds drawn with replacement; ties share their mean."""
    draw = np.random.default_rng(0)
    means = np.array([draw.choice(of, (SAMPLES, len(of))).mean(axis=1) for of in scores.values()])
    better, equal = (compare(means, means[:, None]).sum(axis=1) for compare in (np.greater, np.equal))
    cuts = np.quantile(better + (equal + 1) / 2, [0.025, 0.975], axis=1)
    return {name: (float(low), float(high)) for name, low, high in zip(scores, *cuts, strict=True)}


def _improvement(runs: Sequence[Run], reference: Sequence[Run]) -> Improvement | None:
    wins = np.array([[(one.bleu > other.bleu) + 0.5 * (one.bleu == other.bleu) for other in reference] for one in runs])
    if not wins.size:
        return None
    draw = np.random.default_rng(0)
    own, others = (draw.multinomial(seeds, [1 / seeds] * seeds, SAMPLES) / seeds for seeds in wins.shape)
    low, high = np.quantile((own @ wins * others).sum(axis=1), [0.025, 0.975])
    return Improvement(float(wins.mean()), (float(low), float(high)))


def _epochs(runs: Sequence[Run], reference: Sequence[Run]) -> float:
    curves = [[one.curve(VALID_LOSS) for one in group] for group in (runs, reference)]
    if not reference or not all(curves[1]):
        return math.nan
    target = fmean(at(curve, PART * max(curve)) for curve in curves[1])
    own, others = (fmean(reached(curve, target, falling=True) for curve in group) for group in curves)
    return own / others if math.isfinite(others) else math.nan


def _unevenness(runs: Sequence[Run]) -> Unevenness | None:
    measured = [(run, [unevenness_after(run, part, LEAST_BATCHES) for part in (0.0, *PROBED)]) for run in runs]
    probed = [(run, ratios) for run, ratios in measured if not any(map(math.isnan, ratios))]
    if not probed:
        return None
    start = geometric_mean(ratios[0] for _, ratios in probed)
    later = geometric_mean(max(ratios[1:]) for _, ratios in probed)
    sizes = (probe.batches for run, _ in probed for probe in run.record.probes)
    return Unevenness(start, later, len(probed), min(size for size in sizes if size >= LEAST_BATCHES))
