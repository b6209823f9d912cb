"""The rules on pre-training and fine-tuning (section 4.1 and 4.2, figure 5); losses in bits, as everywhere."""

import math
from collections.abc import Sequence
from statistics import fmean

from ln_repro.paper.claims import FINE_TUNING_SEEDS
from ln_repro.report.case import RATIO, Case, Judged, not_run
from ln_repro.report.evidence import Evidence, Run
from ln_repro.report.rules import reached, times
from ln_repro.verdict import CONTRADICTED, REPRODUCED

PART_OF_RUN = 0.7
"""Of Post-LN's updates, after which its loss is the one to reach: the paper's 700k of a little over 1,000k."""
LOST = 0.5 / math.log(2)
"""Bits (half a nat) above Post-LN's loss at the low rate at which a run has not been trained."""
PART_OF_CHECKPOINTS = 2 / 3
"""Of the checkpoints, in which Pre-LN's accuracy has to be the higher."""
CONTROLS = {
    "both at the low rate": ("preln_nowarm_linear", "postln_warm_linear"),
    "both at the low rate with warm-up": ("preln_warm_linear", "postln_warm_linear"),
}
"""Pairs of arms that differ less than those of BERT-1, which change placement, rate and ramp at once."""


def times_as_long(evidence: Evidence, arms: Sequence[str]) -> Judged:
    """BERT-1: how many times as long Post-LN takes, within reach of the paper's 1.4."""
    return _compared(evidence, arms, 1.15, 1.7)


def longer(evidence: Evidence, arms: Sequence[str]) -> Judged:
    """BERT-1 on other data: Post-LN takes longer."""
    return _compared(evidence, arms, 1)


def only_pre_ln_trains(evidence: Evidence, arms: Sequence[str]) -> Judged:
    """BERT-2: at the high rate Post-LN is lost in most seeds, warm-up or not, and Pre-LN without warm-up in none."""
    case, (post, pre, low) = Case(evidence, arms), arms
    posts = [bool(one) for one in evidence.together((post, low), lost)]
    pres = [bool(one) for one in evidence.together((pre, low), lost)]
    case.count("at the high rate Post-LN lost", posts, 2 * sum(posts) > len(posts))
    case.count("Pre-LN lost", pres, not any(pres))
    for name, arm in (("bits: Post-LN", post), ("Pre-LN", pre), ("Post-LN at the low rate", low)):
        case.tell(name, evidence.of(arm, lambda run: run.loss))
    return case.judged()


def fine_tunes_faster(evidence: Evidence, arms: Sequence[str]) -> Judged:
    """BERT-3: from equally long pre-training, Pre-LN's accuracy is the higher.

    A checkpoint is compared if both arms began with it; a seed counts if it was run from all of them.
    """
    compared = [one for one in evidence.by_start if not one.missing(arms)]
    seeds = set.intersection(*({*one.arms[arm]} for one in compared for arm in arms)) if compared else set()
    if not seeds:
        return not_run([f"{' and '.join(arms)} with the same seed from equally long pre-training"])
    case = Case(evidence, arms, shared=len(seeds), wanted=FINE_TUNING_SEEDS)
    pre, post = ([[100 * one.arms[arm][seed].accuracy for seed in sorted(seeds)] for one in compared] for arm in arms)
    above = [fmean(first) > fmean(second) for first, second in zip(pre, post, strict=True)]
    case.parts.append(REPRODUCED if sum(above) >= PART_OF_CHECKPOINTS * len(above) else CONTRADICTED)
    case.say(f"Pre-LN above at {sum(above)} of {len(above)} checkpoints")
    pooled = [[fmean(of_seed) for of_seed in zip(*arm, strict=True)] for arm in (pre, post)]
    case.within("points, Pre-LN over Post-LN", [first - second for first, second in zip(*pooled, strict=True)], 0)
    for name, values in zip(("Pre-LN %", "Post-LN %"), pooled, strict=True):
        case.tell(name, values)
    return case.judged()


def lost(run: Run, low: Run) -> bool:
    """Return whether a run diverged, or ended far above Post-LN at the low rate."""
    return run.record["status"] == "diverged" or run.loss - low.loss >= LOST


def updates_ratio(pre: Run, post: Run) -> float:
    """Return the updates of Post-LN over those of Pre-LN to the loss that Post-LN has after `PART_OF_RUN`, if any."""
    curves = [
        {row["update"]: -float(row["valid_loss"]) for row in run.record["epochs"] if row["valid_loss"] is not None}
        for run in (pre, post)
    ]
    if not curves[1]:
        return math.inf
    target = at(curves[1], PART_OF_RUN * max(curves[1]))
    return times(reached(curves[1], target), reached(curves[0], target))


def at(curve: dict[int, float], place: float) -> float:
    """Return a curve's value, interpolated; before its first point, that of the first."""
    before = max((here for here in curve if here <= place), default=min(curve))
    after = min(here for here in curve if here >= max(place, before))
    share = (place - before) / (after - before) if after > before else 0.0
    return curve[before] + share * (curve[after] - curve[before])


def _compared(evidence: Evidence, arms: Sequence[str], least: float, most: float = math.inf) -> Judged:
    """Judge Post-LN's updates over Pre-LN's, and tell how much of it is placement alone."""
    case = Case(evidence, arms)
    case.within("updates, Post-LN over Pre-LN", evidence.together(arms, updates_ratio), least, most, RATIO)
    for name, pair in CONTROLS.items():
        if not evidence.missing(pair) and evidence.seeds(pair):
            case.tell(name, evidence.together(pair, updates_ratio), RATIO)
    return case.judged()
