"""The rules of `ln_repro.paper.claims`, as code: each asks the evidence of one corpus and returns what it came to."""

import math
from collections.abc import Callable, Sequence
from statistics import fmean

from ln_repro.paper.claims import FAILS, TRAINS
from ln_repro.report.case import RATIO, Case, Judged, any_of, interval
from ln_repro.report.evidence import Evidence, Run
from ln_repro.verdict import CONTRADICTED, INCONCLUSIVE, REPRODUCED, verdict

Rule = Callable[[Evidence, Sequence[str]], Judged]
FASTER, LEVEL = 1.3, 1.1
"""How many times as long Post-LN takes where Pre-LN is faster, and where it is not."""
FAILED_BLEU = 15.0
"""Below it, a run on IWSLT14 has failed."""
LITERAL_PRE_LN = "preln_nowarm_literal"
PART_OF_FALL = 0.9
"""Of the fall in training loss, after which an arm counts as nearly there."""
CONTROLS = {
    "both with warm-up": ("preln_warm", "postln_warm"),
    "both with the step's tail": ("preln_nowarm", "postln_warm_step"),
}
"""Pairs of arms that differ less than those of MT-5, which change placement and schedule at once."""
AT_EPOCH, LAST_EPOCH = 9, 15
"""Pre-LN's epoch that is compared with Post-LN's last (section 4.2)."""


def bleu(run: Run) -> float:
    """Return the run's BLEU."""
    return run.bleu


def loss(run: Run) -> float:
    """Return the run's loss in bits."""
    return run.loss


def warm_up_needed(literal: bool) -> Rule:
    """MT-1: Post-LN with Adam, without warm-up under one of its two readings."""

    def rule(evidence: Evidence, arms: Sequence[str]) -> Judged:
        case, (warm, none) = Case(evidence, arms), arms
        case.within("with", evidence.of(warm, bleu), 32, 35.5)
        case.within("without", evidence.of(none, bleu), 4 if literal else -math.inf, FAILED_BLEU)
        case.within("difference", evidence.difference(warm, none, bleu), 15)
        if literal:
            starved(case, lambda arm: evidence.of(arm, bleu), FAILED_BLEU)
        return case.judged()

    return rule


def warm_up_needed_elsewhere(literal: bool) -> Rule:
    """MT-1 by progress from the unigram entropy to the best arm."""

    def rule(evidence: Evidence, arms: Sequence[str]) -> Judged:
        case, (warm, none) = Case(evidence, arms), arms
        case.within("with: p", evidence.progress(warm), TRAINS)
        case.within("without: p", evidence.progress(none), most=FAILS)
        case.tell("BLEU with", evidence.of(warm, bleu))
        case.tell("without", evidence.of(none, bleu))
        if literal:
            starved(case, evidence.progress, FAILS)
        return case.judged()

    return rule


def starved(case: Case, quantity: Callable[[str], Sequence[float]], failed: float) -> None:
    """Show MT-1's control: where Pre-LN fails on the literal schedule as well, the norm explains nothing."""
    if case.evidence.missing([LITERAL_PRE_LN]):
        return
    values = quantity(LITERAL_PRE_LN)
    case.tell("Pre-LN without", values)
    if interval(values)[1] <= failed:
        case.say("it fails too: the tail that T = 1 starves explains the number, the paper's explanation does not")


def ramp_length(evidence: Evidence, arms: Sequence[str]) -> Judged:
    """MT-2: a short ramp is enough at the low rate and not at the high one."""
    case, (short, short_high, *_) = Case(evidence, arms), arms
    case.within("low rate", evidence.of(short, bleu), 29.5, 33)
    case.within("high rate", evidence.of(short_high, bleu), most=FAILED_BLEU)
    case.within("difference", evidence.difference(short, short_high, bleu), 10)
    return case.judged()


def ramp_length_elsewhere(evidence: Evidence, arms: Sequence[str]) -> Judged:
    """MT-2 as an interaction of ramp and rate on the loss."""
    case = Case(evidence, arms)
    low, high = (evidence.difference(arms[at], arms[at + 2], loss) for at in (0, 1))
    case.tell("costs at the low rate", low)
    case.tell("at the high rate", high)
    case.within("more at the high rate", [more - less for more, less in zip(high, low, strict=True)], 0)
    return case.judged()


def same_under_sgd(evidence: Evidence, arms: Sequence[str]) -> Judged:
    """MT-3: without warm-up nothing, with it something, and far from Adam."""
    case, (adam, *rates) = Case(evidence, arms), arms
    warm, none = rates[:2], rates[2:]
    for one in none:
        case.within(f"{one}:", evidence.of(one, bleu), most=2)
    gains = [evidence.difference(one, other, bleu) for one, other in zip(warm, none, strict=True)]
    case.add("gain", max(gains, key=fmean), any_of([verdict(interval(gain), (0, math.inf)) for gain in gains]))
    best = max(warm, key=lambda arm: fmean(evidence.of(arm, bleu)))
    case.within("Adam above", evidence.difference(adam, best, bleu), 5)
    return case.judged()


def same_under_sgd_elsewhere(evidence: Evidence, arms: Sequence[str]) -> Judged:
    """MT-3 on the loss, at the rates that were run."""
    case, (adam, *pairs) = Case(evidence, arms), arms
    warm, none = pairs[: len(pairs) // 2], pairs[len(pairs) // 2 :]
    gains = [evidence.difference(other, one, loss) for one, other in zip(warm, none, strict=True)]
    found = any_of([verdict(interval(gain), (0, math.inf)) for gain in gains])
    case.add("bits gained by warm-up", max(gains, key=fmean), found)
    for one in pairs:
        case.within(f"{one} above Adam", evidence.difference(one, adam, loss), 0)
    return case.judged()


def comparable(evidence: Evidence, arms: Sequence[str]) -> Judged:
    """MT-4: Pre-LN without warm-up beside Post-LN with it."""
    case, (pre, post) = Case(evidence, arms), arms
    case.within("Pre-LN minus Post-LN", evidence.difference(pre, post, bleu), -1, 1)
    case.within("bits", evidence.difference(pre, post, loss), -0.15, 0.15)
    for name, arm in (("Pre-LN", pre), ("Post-LN", post)):
        case.within(name, evidence.of(arm, bleu), 32, 35.5)
        case.within("loss", evidence.of(arm, loss), 3.75, 4.25)
    return case.judged()


def comparable_elsewhere(evidence: Evidence, arms: Sequence[str]) -> Judged:
    """MT-4: Pre-LN trains where Post-LN fails, and ends where Post-LN with warm-up does."""
    case, (pre, post, failing) = Case(evidence, arms), arms
    case.within("Pre-LN without: p", evidence.progress(pre), TRAINS)
    case.within("Post-LN without: p", evidence.progress(failing), most=FAILS)
    ratios = evidence.together((pre, post), lambda one, other: one.loss / other.loss)
    case.within("loss over Post-LN's with warm-up", ratios, 0.95, 1.05, RATIO)
    case.tell("BLEU minus Post-LN's", evidence.difference(pre, post, bleu))
    return case.judged()


def times_as_long(evidence: Evidence, arms: Sequence[str]) -> Judged:
    """MT-5: epochs that Post-LN takes to Pre-LN's BLEU at epoch 9."""
    case, (pre, post) = Case(evidence, arms), arms
    speed(case, "epochs, Post-LN over Pre-LN", evidence.together((pre, post), epochs_ratio), FASTER)
    case.within("Post-LN at 15 minus Pre-LN at 9", evidence.together((post, pre), late_minus_early), -0.5, 0.5)
    tell_controls(case, epochs_ratio)
    return case.judged()


def times_as_long_elsewhere(evidence: Evidence, arms: Sequence[str]) -> Judged:
    """MT-5 by updates to nine tenths of the fall in training loss."""
    case, (pre, post) = Case(evidence, arms), arms
    speed(case, "updates, Post-LN over Pre-LN", evidence.together((pre, post), updates_ratio), FASTER)
    tell_controls(case, updates_ratio)
    return case.judged()


def tell_controls(case: Case, ratio: Callable[[Run, Run], float]) -> None:
    """Show how much of it is placement alone: the same ratio where both norms have the same schedule."""
    for name, pair in CONTROLS.items():
        if not case.evidence.missing(pair) and case.evidence.seeds(pair):
            case.tell(name, case.evidence.together(pair, ratio), RATIO)


def speed(case: Case, name: str, ratios: Sequence[float], least: float) -> None:
    """Judge how many times as long Post-LN takes: between `LEVEL` and ``least`` nothing is decided."""
    low, high = interval(ratios, RATIO)
    case.add(name, ratios, REPRODUCED if low >= least else CONTRADICTED if high <= LEVEL else INCONCLUSIVE, RATIO)


def epochs_ratio(pre: Run, post: Run) -> float:
    """Return the epochs of Post-LN over those of Pre-LN to Pre-LN's BLEU at `AT_EPOCH`; 0 if Pre-LN was lost before."""
    target = pre.curve("test_bleu_tokenised").get(AT_EPOCH)
    return reached(post.curve("test_bleu_tokenised"), target) / AT_EPOCH if target is not None else 0.0


def late_minus_early(post: Run, pre: Run) -> float:
    """Return Post-LN's BLEU at its last epoch minus Pre-LN's at `AT_EPOCH`; a run that was lost before has 0."""
    late, early = (run.curve("test_bleu_tokenised") for run in (post, pre))
    return late.get(LAST_EPOCH, 0.0) - early.get(AT_EPOCH, 0.0)


def updates_ratio(pre: Run, post: Run) -> float:
    """Return the updates of Post-LN over those of Pre-LN to nine tenths of Post-LN's fall in training loss."""
    curves = [
        {e["update"]: -float(e["loss"]) for e in run.events if e["kind"] == "train" and e["loss"] is not None}
        for run in (pre, post)
    ]
    slow = [*curves[1].values()]
    if not slow:
        return math.inf if post.lost else math.nan  # without events nothing is known
    target = slow[0] + PART_OF_FALL * (max(slow) - slow[0])
    return times(reached(curves[1], target), reached(curves[0], target))


def times(slow: float, fast: float) -> float:
    """Return one time over another; NaN if neither ever comes."""
    return slow / fast if math.isfinite(slow) or math.isfinite(fast) else math.nan


def reached(curve: dict[int, float], target: float) -> float:
    """Return where a rising curve first reaches the target, interpolated; infinite if it never does."""
    before: tuple[int, float] | None = None
    for at, value in sorted(curve.items()):
        if value >= target:
            if before is None:
                return float(at)
            share = (target - before[1]) / (value - before[1])
            return before[0] + share * (at - before[0])
        before = at, value
    return math.inf


def placement_dominates(evidence: Evidence, arms: Sequence[str]) -> Judged:
    """MT-6: RAdam trains Post-LN, a little below Adam with warm-up; in Pre-LN the optimizer hardly matters."""
    case, (post_radam, pre_radam, pre, post) = Case(evidence, arms), arms
    case.within("Post-LN RAdam", evidence.of(post_radam, bleu), 31, 33.5)
    case.within("below Adam", evidence.difference(post, post_radam, bleu), 0)
    case.within("Pre-LN RAdam minus Adam", evidence.difference(pre_radam, pre, bleu), -0.5, 0.5)
    case.within("placement above optimizer", evidence.together((post_radam, pre_radam, pre), dominance(bleu, 1)), 0)
    return case.judged()


def placement_dominates_elsewhere(evidence: Evidence, arms: Sequence[str]) -> Judged:
    """MT-6 on the loss."""
    case = Case(evidence, arms)
    case.within("placement above optimizer, bits", evidence.together(arms, dominance(loss, -1)), 0)
    return case.judged()


def dominance(quantity: Callable[[Run], float], sign: int) -> Callable[[Run, Run, Run], float]:
    """Return placement's effect under RAdam minus the optimizer's in Pre-LN; ``sign`` -1 where less is better."""

    def contrast(post_radam: Run, pre_radam: Run, pre: Run) -> float:
        placement = sign * (quantity(pre_radam) - quantity(post_radam))
        return placement - abs(quantity(pre_radam) - quantity(pre))

    return contrast


def small_fixed_rate(absolute: bool) -> Rule:
    """MT-7: slow but steady. On the paper's data the loss itself is judged, too."""

    def rule(evidence: Evidence, arms: Sequence[str]) -> Judged:
        case, (fixed, failing, post, pre) = Case(evidence, arms), arms
        if absolute:
            case.within("loss", evidence.of(fixed, loss), 4.1, 4.5)
        case.within("below the large rate's", evidence.difference(failing, fixed, loss), 0)
        best = min((post, pre), key=lambda arm: fmean(evidence.of(arm, loss)))
        case.within("above the best", evidence.difference(fixed, best, loss), 0)
        return case.judged()

    return rule


def comparable_on_wmt(evidence: Evidence, arms: Sequence[str]) -> Judged:
    """WMT-1: at both rates Pre-LN is as good, or better."""
    case = Case(evidence, arms)
    for name, pre, post in (("low rate", *arms[:2]), ("high rate", *arms[2:])):
        case.within(f"{name}: Pre-LN minus Post-LN", evidence.difference(pre, post, bleu), -1)
    return case.judged()


def faster_on_wmt(evidence: Evidence, arms: Sequence[str]) -> Judged:
    """WMT-2: at both rates Post-LN takes longer."""
    case = Case(evidence, arms)
    for name, pair in (("low rate", arms[:2]), ("high rate", arms[2:])):
        speed(case, f"{name}: epochs, Post-LN over Pre-LN", evidence.together(pair, epochs_ratio), LEVEL)
    return case.judged()
