"""Criteria that compare arms over all of their learning rates, or each at its best one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from ln_repro.claims.criteria import Finding, OverRates, Within
from ln_repro.claims.evidence import FAILED_BITS, FAILS, TRAINED_BITS, TRAINS, Evidence
from ln_repro.claims.intervals import CONTRADICTED, INCONCLUSIVE, REPRODUCED, SIGNIFICANT, Interval, fisher_exact
from ln_repro.claims.lr50 import Lr50, lr50
from ln_repro.claims.metrics import BLEU, SEEDS, Effect
from ln_repro.claims.rates import CURVE_SEEDS, at_edge, best_rate, usable_curve, usable_range
from ln_repro.claims.words import arm_words
from ln_repro.records.archive import Run

HIGHER, NO_HIGHER = 1.5, 1.25
"""An LR50 is higher than another if the interval of the ratio lies above the first, and is not if below the second."""
NEITHER_TRAINS = "neither trains"  # of two arms
NOT_WORSE = 1.0  # BLEU that an arm may have less than another without counting as worse
SATURATED = 95.0  # mean BLEU of the best arm above which differences in BLEU between arms that train mean nothing
NEARLY_NOTHING = 1 / 3  # part of the BLEU with warm-up below which an arm's BLEU is "just above 0"
STARVED = -2.0  # BLEU that leaving out the ramp may cost if the effect of "no warm-up" is that of the lower rates


@dataclass(frozen=True)
class RateFactor(OverRates):
    """The first arm's LR50 is higher than the second's, and at some rate more of its seeds train.

    Fisher's exact test is made at every rate that enters both LR50s, and its level divided by their number. A second
    arm that trains nowhere and is best at the highest of its rates may be under-trained, which decides nothing. The
    effect that is shown leaves out rates below the lowest at which the first arm trains, the rule does not.
    """

    masked: bool = False  # whether the task is masked LM, where a run trains according to its loss

    def sentence(self) -> str:
        first, second = map(arm_words, self.arms)
        trains = (
            f"NLL {TRAINED_BITS} bits below the unigram entropy, and fails within {FAILED_BITS} bits of it"
            if self.masked
            else f"BLEU at least {TRAINS} of the best arm's, and fails below {FAILS}"
        )
        return (
            f"LR50 (the peak rate at which half of the seeds train: {trains}) of {first} over that of {second}: 95 % "
            f"interval above {HIGHER:g}, and at some rate the two differ (Fisher's exact test, p < {SIGNIFICANT} over "
            f"the number of rates that enter both LR50s); contradicted below {NO_HIGHER:g}"
        )

    def judge(self, evidence: Evidence) -> Finding:
        first, second = (lr50(evidence, arm) for arm in self.arms)
        if first is None or second is None:
            return self.too_few(evidence)
        controlled = lr50(evidence, self.arms[1], control=self.arms[0]) or second
        effect, shown = (
            replace(factor, unit="x{} in rate") if (factor := first.over(limit)) else None
            for limit in (second, controlled)
        )
        texts = [str(shown)] if shown else []
        shared = sorted(first.counts.keys() & second.counts.keys())
        p_values = [
            (fisher_exact(*first.counts[rate], *second.counts[rate]), rate)
            for rate in shared
            if first.counts[rate].share > second.counts[rate].share
        ]
        least, rate = min(p_values, default=(1.0, 0.0))
        if p_values:
            texts.append(f"at {rate:g}, {first.counts[rate]} against {second.counts[rate]} train (p = {least:.1g})")
        result, needs, note = INCONCLUSIVE, None, ""
        if not second.median and at_edge(evidence, self.arms[1]) == "higher":
            needs = f"higher rates of {arm_words(self.arms[1])}"
        elif effect and effect.interval[0] > HIGHER and least < SIGNIFICANT / max(1, len(shared)):
            result = REPRODUCED
        elif effect and effect.interval[1] < NO_HIGHER:
            result = CONTRADICTED
        else:
            needs = self.needed(evidence, first)
            note = "too few at any one rate" if effect and effect.interval[0] > HIGHER else ""
        if not first.median and not second.median:
            note = NEITHER_TRAINS
        if effect != shown:
            texts.append(f"by the rule {effect}, which counts rates that are too low")
        text, runs = "; ".join(texts) or "no bound from these rates", evidence.of_arms(self.arms)
        return Finding(result, shown, text, needs, runs, self.most_seeds(evidence), note)

    def needed(self, evidence: Evidence, first: Lr50) -> str:
        """Return what would make the interval narrower, or the p-value smaller."""
        few = {rate for arm in self.arms for rate, runs in evidence.curve(arm).items() if len(runs) < SEEDS}
        if few:
            return f"{SEEDS} seeds at {', '.join(f'{rate:g}' for rate in sorted(few))}"
        if math.isinf(first.median):
            return f"rates of {arm_words(self.arms[0])} above {first.interval[0]:g}"
        return f"{2 * self.most_seeds(evidence)} seeds"


class AtBestRates(OverRates):
    """The first arm's BLEU is not worse than the second's by `NOT_WORSE`, each at its rate of lowest validation loss.

    Whether it is not better either is reported. No verdict where BLEU is saturated.
    """

    def sentence(self) -> str:
        first, second = map(arm_words, self.arms)
        return (
            f"BLEU of {first} minus that of {second}, each at its rate of lowest validation loss: not worse by "
            f"{NOT_WORSE:g} (95 % interval above {-NOT_WORSE:g}; contradicted below it), the second's best rate inside "
            "those run; whether it is not better by as much is reported; no verdict if the best arm's BLEU is above "
            f"{SATURATED:g} (saturated)"
        )

    def judge(self, evidence: Evidence) -> Finding:
        bests = [best_rate(evidence, arm) for arm in self.arms]
        if bests[0] is None or bests[1] is None:
            return self.too_few(evidence, f"{SEEDS} seeds at the best rate")
        (rate, runs), (other_rate, others) = bests[0], bests[1]
        saturated = any(evidence.best(run)[0] > SATURATED for run in evidence.of_arms(self.arms))
        finding = Within(BLEU.minus(), self.arms, -NOT_WORSE).judge(
            Evidence(dict(zip(self.arms, (runs, others), strict=True)))
        )
        used, seeds = [*runs.values(), *others.values()], len({*runs} & {*others})
        if saturated:
            return Finding(INCONCLUSIVE, finding.effect, runs=used, seeds=seeds, note="saturated")
        if not finding.effect:
            return Finding(INCONCLUSIVE, needs=f"{SEEDS} seeds", runs=used, seeds=seeds)
        result, needs, note = finding.verdict, finding.needs, ""
        if seeds < SEEDS:
            result, needs = INCONCLUSIVE, f"{SEEDS} seeds at {rate:g} and {other_rate:g}"
        elif result == REPRODUCED and (side := at_edge(evidence, self.arms[1])):
            needs = f"{side} rates of {arm_words(self.arms[1])}"
            result, note = INCONCLUSIVE, f"not run at {needs}"
        text = f"{finding.effect} (at {rate:g} and {other_rate:g}); {_better(finding.effect.interval)}"
        return Finding(result, finding.effect, text, needs, used, seeds, note)


class JustAboveNothing(OverRates):
    """Without warm-up (the first arm) BLEU stays just above 0; with it (the second) it is below Adam's (the third)."""

    def sentence(self) -> str:
        without, warm, adam = map(arm_words, self.arms)
        return (
            f"at every rate, the mean BLEU of {without} is below a third of the best of {warm}, and that is below the "
            f"best of {adam}"
        )

    def judge(self, evidence: Evidence) -> Finding:
        bests, runs = [best_by_bleu(evidence, arm) for arm in self.arms], evidence.of_arms(self.arms)
        if not all(bests):
            return self.too_few(evidence, f"{CURVE_SEEDS} seeds of {', '.join(self.arms)}", runs)
        without, warm, adam = (fmean(run.bleu for run in best) for best in bests)
        holds = without < NEARLY_NOTHING * warm and warm < adam
        effect = Effect(without - warm, unit="{} BLEU", digits="+.1f")
        text = f"{without:.1f} against {warm:.1f} BLEU with warm-up, Adam {adam:.1f}"
        return Finding(REPRODUCED if holds else CONTRADICTED, effect, text, runs=runs, seeds=self.most_seeds(evidence),
                       note=_trains_nowhere(evidence, self.arms[:2]))  # fmt: skip


class NotStarved(OverRates):
    """Without the ramp alone (the first arm), the best BLEU is lower than with it; otherwise the effect is starvation.

    The paper's reading of "no warm-up" also lowers all later rates, which starves an arm of learning rate.
    """

    def sentence(self) -> str:
        first, second = map(arm_words, self.arms)
        return (
            f"BLEU of {first} minus that of {second}, each at its best rate: 95 % interval below {STARVED:g}; "
            "contradicted above it: the effect is starvation"
        )

    def judge(self, evidence: Evidence) -> Finding:
        bests = {arm: {run.seed: run for run in best_by_bleu(evidence, arm)} for arm in self.arms}
        runs = evidence.of_arms(self.arms)
        if not all(bests.values()):
            return self.too_few(evidence, f"{CURVE_SEEDS} seeds of {', '.join(self.arms)}", runs)
        finding = Within(BLEU.minus(), self.arms, -math.inf, STARVED).judge(Evidence(bests))
        notes = ["starvation" if finding.verdict == CONTRADICTED else "", _trains_nowhere(evidence, self.arms)]
        return replace(finding, runs=runs, note=", ".join(filter(None, notes)))


def _better(interval: Interval) -> str:
    """Return whether an arm with such a difference in BLEU to another one is better by `NOT_WORSE`."""
    if interval[1] < NOT_WORSE:
        return f"not better by {NOT_WORSE:g}"
    return f"better by {NOT_WORSE:g}" if interval[0] > NOT_WORSE else f"may be better by {NOT_WORSE:g}"


def best_by_bleu(evidence: Evidence, arm: str) -> list[Run]:
    """Return the runs at the rate with the highest mean BLEU; none if no rate has enough runs."""
    return max(usable_curve(evidence, arm).values(), key=lambda runs: fmean(run.bleu for run in runs), default=[])


def _trains_nowhere(evidence: Evidence, arms: Sequence[str]) -> str:
    """Return the note that neither of two arms trains at any rate; empty if one does."""
    return "" if any(usable_range(evidence, arm) for arm in arms) else NEITHER_TRAINS
