"""X-1 to X-4: the schemes that followed, by depth, without warm-up and beside Post-LN."""

import math
from collections.abc import Callable, Sequence
from statistics import fmean

from ln_repro.paper.claims import TRAINS
from ln_repro.report.case import Case, Judged, any_of, interval
from ln_repro.report.evidence import Evidence, Run
from ln_repro.report.rules import Rule, bleu, loss
from ln_repro.report.rules_probes import probes
from ln_repro.verdict import CONTRADICTED, INCONCLUSIVE, REPRODUCED, verdict

TRAINED_BLEU = 30.0
"""BLEU on IWSLT14 of a run that has trained."""
FEW = 1 / 3
"""The share of seeds that train at most where a scheme fails."""
EVEN = 3.0
"""Largest over smallest gradient of a scheme that is well-conditioned."""
NON_INFERIOR_BLEU, NON_INFERIOR_LOSS = -0.3, 1.02
"""The difference in BLEU, and the ratio of losses, down to which a scheme matches Post-LN."""

Trained = Callable[[Evidence, str], list[float]]


def by_bleu(evidence: Evidence, arm: str) -> list[float]:
    """Return 1 for every run of an arm that has trained, 0 for the others: on the paper's data."""
    return evidence.of(arm, lambda run: float(run.bleu >= TRAINED_BLEU))


def by_progress(evidence: Evidence, arm: str) -> list[float]:
    """Return the same on other data."""
    return [float(p >= TRAINS) for p in evidence.progress(arm)]


def deeper(trained: Trained) -> Rule:
    """X-1: at one of the depths Post-LN fails where DeepNorm trains."""

    def rule(evidence: Evidence, arms: Sequence[str]) -> Judged:
        case, depths = Case(evidence, arms), []
        for name, post, deep in (("deep", *arms[:2]), ("deeper", *arms[2:])):
            shares = {arm: fmean(trained(evidence, arm)) for arm in (post, deep)}
            case.say(f"{name}: Post-LN trains in {shares[post]:.0%}, DeepNorm in {shares[deep]:.0%}")
            depths.append(holds(shares[post] <= FEW and shares[deep] == 1))
        case.parts.append(any_of(depths))
        return case.judged()

    return rule


def without_norm(trained: Trained) -> Rule:
    """X-2: ReZero trains without warm-up, in all seeds, with either tail."""

    def rule(evidence: Evidence, arms: Sequence[str]) -> Judged:
        case, (anchored, step, post) = Case(evidence, arms), arms
        for name, arm in (("ramp's tail", anchored), ("step's tail", step)):
            all_train(case, name, trained(evidence, arm))
        case.tell("BLEU minus Post-LN's with warm-up", evidence.difference(anchored, post, bleu))
        return case.judged()

    return rule


def matches(evidence: Evidence, arms: Sequence[str]) -> Judged:
    """X-3: as good as Post-LN at 6-6, measured and in closed form, and trains at a depth where Post-LN does not."""
    case, (measured, closed, post, deep, post_deep) = Case(evidence, arms), arms
    for name, arm in (("measured", measured), ("closed form", closed)):
        case.within(f"{name}: BLEU minus Post-LN's", evidence.difference(arm, post, bleu), NON_INFERIOR_BLEU)
    all_train(case, "deeper", by_bleu(evidence, deep))
    share = fmean(by_bleu(evidence, post_deep))
    case.say(f"Post-LN there in {share:.0%}")
    case.parts.append(holds(share <= FEW))
    return case.judged()


def matches_elsewhere(evidence: Evidence, arms: Sequence[str]) -> Judged:
    """X-3 on the loss."""
    case, (measured, closed, post) = Case(evidence, arms), arms
    for name, arm in (("measured", measured), ("closed form", closed)):
        ratios = evidence.together((arm, post), lambda one, other: one.loss / other.loss)
        case.within(f"{name}: loss over Post-LN's", ratios, most=NON_INFERIOR_LOSS)
    return case.judged()


def open_question(trained: Trained, on_bleu: bool) -> Rule:
    """X-4: a scheme that has all three; one is enough."""

    def rule(evidence: Evidence, arms: Sequence[str]) -> Judged:
        case = Case(evidence, arms)
        tuned = [arm for arm in arms if arm.startswith("postln")]
        best = min(tuned, key=lambda arm: fmean(evidence.of(arm, lambda run: -run.bleu if on_bleu else run.loss)))
        found = []
        for arm in (arm for arm in arms if arm not in tuned):
            parts = [even(case, arm), holds(all(trained(evidence, arm))), as_good(case, arm, best, on_bleu)]
            found.append(next((word for word in (CONTRADICTED, INCONCLUSIVE) if word in parts), REPRODUCED))
        case.parts.append(any_of(found))
        return case.judged()

    return rule


def even(case: Case, arm: str) -> str:
    """Judge how evenly the layers' gradients are spread; a scheme that was not probed is undecided."""
    ratios = case.evidence.of(arm, unevenness)
    if any(map(math.isnan, ratios)):
        case.say(f"{arm.split('_')[0]}: not probed in every seed")
        return INCONCLUSIVE
    case.tell(f"{arm.split('_')[0]}: largest over smallest gradient", ratios)
    return verdict(interval(ratios), (0, EVEN))


def unevenness(run: Run) -> float:
    """Return the largest over the smallest gradient of a layer, at the probe where it is worst.

    A probe at which every layer's is zero compares nothing (ReZero before training); a run without probes: NaN.
    """
    seen = [max(layers) / min(layers) if min(layers) else math.inf for layers in probes(run, 0) if max(layers)]
    return max(seen, default=math.nan)


def as_good(case: Case, arm: str, post: str, on_bleu: bool) -> str:
    """Judge whether an arm ends where the best Post-LN does."""
    if on_bleu:
        values, region = case.evidence.difference(arm, post, bleu), (NON_INFERIOR_BLEU, math.inf)
        case.tell("BLEU minus the best Post-LN's", values)
    else:
        values = case.evidence.together((arm, post), lambda one, other: loss(one) / loss(other))
        region = (0.0, NON_INFERIOR_LOSS)
        case.tell("loss over the best Post-LN's", values)
    return verdict(interval(values), region)


def all_train(case: Case, name: str, trained: Sequence[float]) -> None:
    """Ask that every run has trained."""
    case.say(f"{name}: trains in {fmean(trained):.0%}")
    case.parts.append(holds(all(trained)))


def holds(true: bool) -> str:
    """Judge what is counted, not estimated."""
    return REPRODUCED if true else CONTRADICTED
