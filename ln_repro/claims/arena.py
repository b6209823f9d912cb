"""Every scheme under one protocol: same data, length and learning rates, with and without warm-up."""

import math
from dataclasses import dataclass
from statistics import fmean

from ln_repro.claims.effects import Effect
from ln_repro.claims.evidence import Evidence, Rate
from ln_repro.claims.lr50 import Lr50, lr50
from ln_repro.claims.metrics import NLL
from ln_repro.claims.ranges import Range, best_rate, usable_range
from ln_repro.claims.sensitivity import arm_sensitivity, shared_rates
from ln_repro.experiment.name import ArmName

LEAST_SCHEMES = 3
"""Minimum number of schemes to show; Pre-LN and Post-LN alone are compared by the arms and the rates."""
REFERENCE = "preln"
UNRAMPED = {"preln": "preln_nowarm_anchored"}
"""The arm without warm-up if it is not named ``SCHEME_nowarm``: the one with the same tail as with warm-up."""


@dataclass(frozen=True)
class Entry:
    """The results of a scheme; those at the best rate are of the arm and the rate with its lowest mean loss."""

    scheme: str  # its name in `conf/norm`
    without: Range | None  # the usable range without warm-up; None if it trains at no rate
    with_ramp: Range | None
    limit: Lr50 | None  # LR50 without warm-up; None if it was not run
    arm: str
    rate: Rate
    nll: Effect  # at the best rate
    seeds: int
    sensitivity: float | None  # over the rates that all schemes share, without warm-up, in bits; None if unknown


def arms_of(scheme: str) -> tuple[str, str]:
    """Return the arms of a scheme without and with warm-up."""
    return UNRAMPED.get(scheme, f"{scheme}_nowarm"), f"{scheme}_warm"


def arena(evidence: Evidence) -> list[Entry]:
    """Return an entry for each scheme with enough seeds at some rate, the widest range without warm-up first."""
    bests = {}
    for scheme in sorted({ArmName.of(arm).scheme for arm in evidence.rates}):
        arms = [(arm, best[0], [*best[1].values()]) for arm in arms_of(scheme) if (best := best_rate(evidence, arm))]
        if arms:
            bests[scheme] = min(arms, key=lambda of_arm: fmean(run.loss for run in of_arm[2]))
    rates = shared_rates(evidence, [arms_of(scheme)[0] for scheme in bests])
    entries = []
    for scheme, (arm, rate, runs) in bests.items():
        without, with_ramp = arms_of(scheme)
        sensitivity, _ = arm_sensitivity(evidence, without, rates) or (None, None)
        entries.append(Entry(
            scheme, usable_range(evidence, without), usable_range(evidence, with_ramp), lr50(evidence, without),
            arm, rate, NLL.effect([run.nll for run in runs]), len(runs), sensitivity,
        ))  # fmt: skip
    return sorted(entries, key=lambda entry: (-_octaves(entry), entry.nll.value))


def _octaves(entry: Entry) -> float:
    return entry.without.octaves if entry.without else -math.inf
