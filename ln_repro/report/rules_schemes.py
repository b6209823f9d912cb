"""X-1 to X-4: the schemes that followed, by depth, without warm-up and beside Post-LN."""

import math
from collections.abc import Callable, Sequence
from statistics import fmean

from ln_repro.paper.claims import TRAINS
from ln_repro.report.case import RATIO, Case, Judged, any_of
from ln_repro.report.evidence import Evidence, Run
from ln_repro.report.rules import Rule, bleu, loss
from ln_repro.report.rules_probes import probes
from ln_repro.verdict import INCONCLUSIVE, together

TRAINED_BLEU = 30.0
"""BLEU on IWSLT14 of a run that has trained."""
FEW = 1 / 3
"""The share of seeds that train at most where a scheme fails."""
EVEN = 3.0
"""Largest over smallest gradient of a scheme that is well-conditioned."""
NON_INFERIOR_BLEU, NON_INFERIOR_LOSS = -0.3, 1.02
"""The difference in BLEU, and the ratio of losses, down to which a scheme matches Post-LN."""

ANY = 1
"""Seeds that a part of a rule takes: whether there are enough is asked of the whole."""
Trained = Callable[[Evidence, str], list[bool]]


def by_bleu(evidence: Evidence, arm: str) -> list[bool]:
    """Return whether each run of an arm has trained: on the paper's data."""
    return [not run.lost and run.bleu >= TRAINED_BLEU for _, run in sorted(evidence.arms[arm].items())]


def by_progress(evidence: Evidence, arm: str) -> list[bool]:
    """Return the same on other data."""
    return [p >= TRAINS for p in evidence.progress(arm)]


def deeper(trained: Trained) -> Rule:
    """X-1: at one of the depths Post-LN fails where DeepNorm trains."""

    def rule(evidence: Evidence, arms: Sequence[str]) -> Judged:
        case, depths = Case(evidence, arms), []
        for name, post, deep in (("deep", *arms[:2]), ("deeper", *arms[2:])):
            one = Case(evidence, arms)
            one.count(f"{name}: Post-LN trains", trained(evidence, post), few(trained(evidence, post)))
            one.count("DeepNorm", trained(evidence, deep), all(trained(evidence, deep)))
            case.say(", ".join(one.words))
            depths.append(together(one.parts, ANY, ANY))
        case.parts.append(any_of(depths))
        return case.judged()

    return rule


def without_norm(trained: Trained) -> Rule:
    """X-2: ReZero trains without warm-up, in all seeds, with either tail."""

    def rule(evidence: Evidence, arms: Sequence[str]) -> Judged:
        case, (anchored, step, post) = Case(evidence, arms), arms
        for name, arm in (("ramp's tail: trains", anchored), ("step's tail", step)):
            case.count(name, trained(evidence, arm), all(trained(evidence, arm)))
        case.tell("BLEU minus Post-LN's with warm-up", evidence.difference(anchored, post, bleu))
        return case.judged()

    return rule


def matches(evidence: Evidence, arms: Sequence[str]) -> Judged:
    """X-3: as good as Post-LN at 6-6, measured and in closed form, and trains at a depth where Post-LN does not."""
    case, (measured, closed, post, deep, post_deep) = Case(evidence, arms), arms
    for name, arm in (("measured", measured), ("closed form", closed)):
        case.within(f"{name}: BLEU minus Post-LN's", evidence.difference(arm, post, bleu), NON_INFERIOR_BLEU)
    case.count("deeper: trains", by_bleu(evidence, deep), all(by_bleu(evidence, deep)))
    case.count("Post-LN", by_bleu(evidence, post_deep), few(by_bleu(evidence, post_deep)))
    return case.judged()


def matches_elsewhere(evidence: Evidence, arms: Sequence[str]) -> Judged:
    """X-3 on the loss."""
    case, (measured, closed, post) = Case(evidence, arms), arms
    for name, arm in (("measured", measured), ("closed form", closed)):
        ratios = evidence.together((arm, post), lambda one, other: one.loss / other.loss)
        case.within(f"{name}: loss over Post-LN's", ratios, most=NON_INFERIOR_LOSS, scale=RATIO)
    return case.judged()


def open_question(trained: Trained, on_bleu: bool) -> Rule:
    """X-4: a scheme that has all three, training at the higher rate, too; one is enough."""

    def rule(evidence: Evidence, arms: Sequence[str]) -> Judged:
        case = Case(evidence, arms)
        tuned = [arm for arm in arms if arm.startswith("postln")]
        best = min(tuned, key=lambda arm: fmean(evidence.of(arm, lambda run: -run.bleu if on_bleu else run.loss)))
        found: list[str] = []
        open_ones: list[float] = []
        for arm in (arm for arm in arms if f"{arm}_high" in arms and arm not in tuned):
            one = Case(evidence, [arm])
            even(one, arm)
            for rate, run_at in (("", arm), (" at the higher rate", f"{arm}_high")):
                one.count(f"trains{rate}", trained(evidence, run_at), all(trained(evidence, run_at)))
            as_good(one, arm, best, on_bleu)
            case.say(f"{arm.split('_')[0]}: {', '.join(one.words)}")
            found.append(together(one.parts, ANY, ANY))
            if found[-1] == INCONCLUSIVE:
                open_ones.append(max(one.more, default=math.inf))
        case.parts.append(any_of(found))
        case.more += [min(open_ones)] if open_ones else []  # the scheme that takes the fewest seeds
        return case.judged()

    return rule


def even(case: Case, arm: str) -> None:
    """Ask that the layers' gradients are spread evenly; a scheme that was not probed is undecided."""
    ratios = case.evidence.of(arm, unevenness)
    if any(map(math.isnan, ratios)):
        case.parts.append(INCONCLUSIVE)
        case.say("not probed in every seed")
    else:
        case.within("largest over smallest gradient", ratios, most=EVEN, scale=RATIO)


def unevenness(run: Run) -> float:
    """Return the largest over the smallest gradient of a layer, at the probe where it is worst.

    A probe at which every layer's is zero compares nothing (ReZero before training); a run without probes: NaN.
    """
    seen = [max(layers) / min(layers) if min(layers) else math.inf for layers in probes(run, 0) if max(layers)]
    return max(seen, default=math.nan)


def as_good(case: Case, arm: str, post: str, on_bleu: bool) -> None:
    """Ask that an arm ends where the best Post-LN does."""
    if on_bleu:
        case.within("BLEU minus the best Post-LN's", case.evidence.difference(arm, post, bleu), NON_INFERIOR_BLEU)
    else:
        ratios = case.evidence.together((arm, post), lambda one, other: loss(one) / loss(other))
        case.within("loss over the best Post-LN's", ratios, most=NON_INFERIOR_LOSS, scale=RATIO)


def few(trained: Sequence[bool]) -> bool:
    """Return whether so few runs have trained that their arm fails."""
    return sum(trained) <= FEW * len(trained)
