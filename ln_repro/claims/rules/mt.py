"""MT-1 to MT-7, WMT-1 and WMT-2: translation (sections 3.2 and 4, appendix H), on IWSLT14, WMT14 and other data."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from ln_repro.claims import metrics
from ln_repro.claims.criteria import Claim, Criterion, Either, Finding, OverRates, Report, Rule, Trains, Within
from ln_repro.claims.evidence import FAILED_BITS, FAILS, TRAINED_BITS, TRAINS, Evidence
from ln_repro.claims.intervals import CONTRADICTED, INCONCLUSIVE, REPRODUCED, SIGNIFICANT, Interval, fisher_exact
from ln_repro.claims.lr50 import Lr50, lr50
from ln_repro.claims.metrics import BLEU, LOSS, NLL, SEEDS, SHARE, Count, Effect
from ln_repro.claims.rates import CURVE_SEEDS, at_edge, best_rate, usable_curve
from ln_repro.claims.words import arm_words
from ln_repro.records.archive import Run

FIRST = "2026-11-21T14:30Z"  # before any run on IWSLT14 or WMT14, after 36 runs on toy and 11 on Multi30k
AMENDED = "2026-11-22T13:20Z"  # after 183 runs on toy and Multi30k, before any grid over learning rates
CORRECTED = "2026-11-24T06:00Z"  # the rules of MT-4 and MT-6
AUDITED = "2026-11-25T09:45Z"  # on the paper's data, only the wrong side contradicts: MT-1, MT-5, BERT-1
SECOND = "2026-11-27T08:00Z"  # after 1,543 runs, before any with a seed above 100
"""When rules were written, amended and corrected (see `docs/rules.md`)."""
REGISTRY = "thresholds from the paper's numbers and their spread"
AMENDMENT, SECOND_AMENDMENT = "first amendment of the rules", "second amendment of the rules"
LITERAL, ANCHORED = "T = 1, as the paper has it", "only the ramp left out"
"""The paper's reading of "no warm-up", which also lowers all later rates, and the one that changes nothing else."""
HIGHER, NO_HIGHER = 1.5, 1.25
"""An LR50 is higher than another if the interval of the ratio lies above the first, and is not if below the second."""
NOTHING_TRAINS = "nothing trains here"
FAILED_BLEU, TRAINED_BLEU = 15.0, 30.0  # on IWSLT14, a run fails below the first BLEU and trains at or above the second
FASTER, NO_FASTER = 1.3, 1.1
"""Ratio of Post-LN's to Pre-LN's time to the target: at least the first, Pre-LN is faster; at most the second, not."""
EITHER = 0.975
"""Confidence level of each of two intervals if one of them must hold, so that the pair has a level of 95 %."""
LOSS_MARGIN = 0.15  # maximum difference in loss, in bits, between arms that count as comparable
LOWER_BLEU, HIGHER_LOSS = (-math.inf, -1.0), (LOSS_MARGIN, math.inf)
"""Differences to Post-LN that contradict "comparable"; in the other direction, Pre-LN is better than claimed."""
NOT_WORSE = 1.0  # BLEU that an arm may have less than another without counting as worse
SATURATED = 95.0  # mean BLEU of the best arm above which differences in BLEU between arms that train mean nothing
NEARLY_NOTHING = 1 / 3  # part of the BLEU with warm-up below which an arm's BLEU is "just above 0"
STARVED = -2.0  # BLEU that leaving out the ramp may cost if the effect of "no warm-up" is that of the lower rates


def best_by_bleu(evidence: Evidence, arm: str) -> list[Run]:
    """Return the runs at the rate with the highest mean BLEU; none if no rate has enough runs."""
    return max(usable_curve(evidence, arm).values(), key=lambda runs: fmean(run.bleu for run in runs), default=[])


def _trains_nowhere(evidence: Evidence, arms: Sequence[str]) -> str:
    counts = [Count.of(evidence.trained, runs) for arm in arms for runs in usable_curve(evidence, arm).values()]
    return "" if any(count.share >= SHARE for count in counts) else NOTHING_TRAINS


@dataclass(frozen=True)
class RateFactor(OverRates):
    """The first arm's LR50 is higher than the second's, and at some rate more of its seeds train.

    Fisher's exact test is made at every rate that enters both LR50s, and its level divided by their number. A second
    arm that trains nowhere and is best at the highest of its rates may be under-trained, which decides nothing.
    """

    masked: bool = False  # whether the task is masked LM, where a run trains according to its loss

    def sentence(self) -> str:
        first, second = map(arm_words, self.arms)
        trains = (f"NLL {TRAINED_BITS} bits below the unigram entropy, and fails within {FAILED_BITS} bits of it"
                  if self.masked else f"BLEU at least {TRAINS} of the best arm's, and fails below {FAILS}")  # fmt: skip
        return (
            f"LR50 (the peak rate at which half of the seeds train: {trains}) of {first} over that of {second}: 95 % "
            f"interval above {HIGHER:g}, and at some rate the two differ (Fisher's exact test, p < {SIGNIFICANT} over "
            f"the number of rates that enter both LR50s); contradicted below {NO_HIGHER:g}"
        )

    def judge(self, evidence: Evidence) -> Finding:
        first, second = (lr50(evidence, arm) for arm in self.arms)
        if first is None or second is None:
            return self.too_few(evidence)
        factor = first.over(second)
        effect = replace(factor, unit="x{} in rate") if factor else None
        texts = [str(effect)] if effect else []
        shared = sorted(first.counts.keys() & second.counts.keys())
        p_values = {rate: fisher_exact(*first.counts[rate], *second.counts[rate]) for rate in shared
                    if first.counts[rate].share > second.counts[rate].share}  # fmt: skip
        least = min(p_values.values(), default=1.0)
        if p_values:
            rate = min(p_values, key=lambda rate: p_values[rate])
            texts.append(f"at {rate:g}, {first.counts[rate]} against {second.counts[rate]} train (p = {least:.1g})")
        result, needs = INCONCLUSIVE, None
        if not second.median and at_edge(evidence, self.arms[1]) == "higher":
            needs = f"higher rates of {arm_words(self.arms[1])}"
        elif effect and effect.interval[0] > HIGHER and least < SIGNIFICANT / max(1, len(shared)):
            result = REPRODUCED
        elif effect and effect.interval[1] < NO_HIGHER:
            result = CONTRADICTED
        else:
            needs = self.needed(evidence, first)
        note = "" if first.median or second.median else NOTHING_TRAINS
        text, runs = "; ".join(texts) or "no bound from these rates", evidence.of_arms(self.arms)
        return Finding(result, effect, text, needs, runs, self.most_seeds(evidence), note)

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

    Whether it is not better either is reported. No verdict where BLEU is saturated; the NLL is shown there.
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
        difference = replace(NLL.minus(), unit="NLL {} bits") if saturated else BLEU.minus()
        not_worse = Within(difference, self.arms, -NOT_WORSE)
        finding = not_worse.judge(Evidence(dict(zip(self.arms, (runs, others), strict=True))))
        used, seeds = [*runs.values(), *others.values()], len({*runs} & {*others})
        if saturated:
            return Finding(INCONCLUSIVE, finding.effect, runs=used, seeds=seeds, note="saturated")
        if not finding.effect:
            return Finding(INCONCLUSIVE, needs=f"{SEEDS} seeds", runs=used, seeds=seeds)
        result, needs = finding.verdict, finding.needs
        if seeds < SEEDS:
            result, needs = INCONCLUSIVE, f"{SEEDS} seeds at {rate:g} and {other_rate:g}"
        elif result == REPRODUCED and (side := at_edge(evidence, self.arms[1])):
            result, needs = INCONCLUSIVE, f"{side} rates of {arm_words(self.arms[1])}"
        text = f"{finding.effect} (at {rate:g} and {other_rate:g}); {_better(finding.effect.interval)}"
        return Finding(result, finding.effect, text, needs, used, seeds)


def _better(interval: Interval) -> str:
    """Return whether an arm with such a difference in BLEU to another one is better by `NOT_WORSE`."""
    if interval[1] < NOT_WORSE:
        return f"not better by {NOT_WORSE:g}"
    return f"better by {NOT_WORSE:g}" if interval[0] > NOT_WORSE else f"may be better by {NOT_WORSE:g}"


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


def original(*criteria: Criterion, written: str = FIRST) -> Rule:
    """Return a rule for the paper's own data."""
    return Rule(criteria, written, REGISTRY if written == FIRST else f"{REGISTRY}, corrected")


def amended(*criteria: Criterion, written: str = AMENDED) -> Rule:
    """Return a rule for other data, from an amendment."""
    sources = {AMENDED: AMENDMENT, CORRECTED: f"{AMENDMENT}, corrected", SECOND: SECOND_AMENDMENT}
    return Rule(criteria, written, sources[written])


def _needs_warm_up(id: str, reading: str, without: str, least: float, grid: str, *controls: str) -> Claim:
    return Claim(
        id, f"Post-LN needs warm-up at higher rates ({reading})", "section 3.2, figure 2",
        "8.45 BLEU without warm-up (text), about 34 with it (text; plotted plateau 33.1)",
        "8.45 and 34 BLEU" if reading == LITERAL else "8.45 and 34 BLEU, T = 1",
        original(
            Within(BLEU, ("postln_warm",), 32, 35.5),
            Within(BLEU, (without,), least, FAILED_BLEU, (FAILED_BLEU, math.inf)),
            Within(BLEU.minus(), ("postln_warm", without), 15),
            *(Report(BLEU, (control,)) for control in controls),
            written=AUDITED,
        ),
        amended(RateFactor(("postln_warm", without)), written=SECOND),
        grid=f"{grid} arms={','.join(('postln_warm', without, *controls))}", controls=controls,
    )  # fmt: skip


def _same_under_sgd(id: str, reading: str, suffix: str, explanation: bool) -> Claim:
    warm = ("postln_warm_sgd", "postln_warm_sgd_low")
    none = (f"postln_nowarm_sgd{suffix}", f"postln_nowarm_sgd_low{suffix}")
    pair = (none[0], warm[0])
    return Claim(
        id, f"Post-LN under SGD needs warm-up ({reading})", "section 3.2, figure 2",
        "without warm-up just above 0 BLEU in 15 epochs; with it better, but significantly worse than Adam (text)",
        "just above 0 BLEU",
        original(
            *(Within(BLEU, (arm,), high=2) for arm in none),
            Either((Within(BLEU.minus(), (warm[0], none[0]), 0, level=EITHER),
                    Within(BLEU.minus(), (warm[1], none[1]), 0, level=EITHER)), "at one of the two rates"),
            *(Within(BLEU.minus(), ("postln_warm", arm), 5) for arm in warm),
        ),
        amended(NotStarved(pair) if explanation else JustAboveNothing((*pair, "postln_warm")), written=SECOND),
        grid=f"rates_sgd arms={warm[0]},{none[0]}",
    )  # fmt: skip


AT_BOTH_RATES = (("preln_nowarm", "postln_warm"), ("preln_nowarm_high", "postln_warm_high"))
"""The arms that are compared on WMT14."""
FALL = metrics.TIMES_TO_FALL
BETWEEN = (
    Within(metrics.LOSS_GAP, ("postln_nowarm_literal_high", "postln_nowarm_fixed"), 0),
    Within(metrics.ABOVE_THE_BETTER, ("postln_nowarm_fixed", "postln_warm", "preln_nowarm"), 0),
)
"""A small fixed rate is better than the large one and worse than the better placement."""
TRANSLATION = (
    _needs_warm_up("MT-1", LITERAL, "postln_nowarm_literal", 4, "rates_literal", "preln_nowarm_literal"),
    _needs_warm_up("MT-1.anchored", ANCHORED, "postln_nowarm", -math.inf, "rates"),
    Claim(
        "MT-2", "Post-LN is sensitive to the length of the ramp", "section 3.2",
        "500 updates: 31.16 at 0.0005, 2.77 at 0.001 (text)", "31.16 and 2.77 BLEU",
        original(
            Within(BLEU, ("postln_warm_short",), 29.5, 33),
            Within(BLEU, ("postln_warm_short_high",), high=FAILED_BLEU),
            Within(BLEU.minus(), ("postln_warm_short", "postln_warm_short_high"), 10),
        ),
        amended(Within(metrics.RAMP_BY_RATE, ("postln_nowarm", "postln_warm_short", "postln_warm",
                                      "postln_nowarm_high", "postln_warm_short_high", "postln_warm_high"), 0)),
    ),
    _same_under_sgd("MT-3", LITERAL, "_literal", explanation=False),
    _same_under_sgd("MT-3.anchored", ANCHORED, "", explanation=True),
    Claim(
        "MT-4", "Pre-LN without warm-up is comparable to Post-LN with it", "section 4.2, figure 4(a, b)",
        "about 34 BLEU and loss 4 (text); plotted 33.4 and 33.1, loss 4.0 and 4.0", "+0.3 BLEU",
        original(
            Within(BLEU.minus(), ("preln_nowarm", "postln_warm"), -1, 1, LOWER_BLEU),
            Within(LOSS.minus(), ("preln_nowarm", "postln_warm"), -LOSS_MARGIN, LOSS_MARGIN, HIGHER_LOSS),
            *(Within(BLEU, (arm,), 32, 35.5) for arm in ("preln_nowarm", "postln_warm")),
            *(Within(LOSS, (arm,), 3.75, 4.25) for arm in ("preln_nowarm", "postln_warm")),
            written=CORRECTED,
        ),
        amended(AtBestRates(("preln_nowarm_anchored", "postln_warm")), written=SECOND),
        grid="rates arms=preln_nowarm_anchored,postln_warm",
    ),
    Claim(
        "MT-5", "Pre-LN converges faster (both with warm-up)",
        "section 4.2, figure 4", "BLEU 33.0 at 9 and 33.1 at 15 (read off): 1.67 times, Pre-LN without warm-up", "-",
        original(
            *(Within(metric, ("postln_warm", "preln_nowarm"), FASTER, math.inf, (-math.inf, NO_FASTER))
              for metric in (metrics.EPOCHS_TO_BLEU, metrics.EPOCHS_TO_LOSS)),
            Within(metrics.LATE_MINUS_EARLY, ("postln_warm", "preln_nowarm"), -0.5, 0.5, (0.5, math.inf)),
            Report(metrics.EPOCHS_TO_BLEU, ("postln_warm", "preln_warm")),
            Report(metrics.EPOCHS_TO_BLEU, ("postln_warm_step", "preln_nowarm")),
            written=AUDITED,
        ),
        amended(
            Within(FALL[0.9], ("postln_warm", "preln_warm"), NO_FASTER),
            *(Report(FALL[level], ("postln_warm", "preln_warm"), f"at {level:.0%}") for level in (0.7, 0.8)),
            Report(metrics.TIMES_TO_FINAL_BLEU, ("postln_warm", "preln_warm"), "to the final BLEU"),
            Report(FALL[0.9], ("postln_warm", "preln_nowarm_anchored"), "Pre-LN without warm-up"),
            written=SECOND,
        ),
        controls=("preln_warm", "postln_warm_step"),
    ),
    Claim(
        "MT-5.bleu", "Pre-LN without warm-up has Post-LN's final BLEU earlier",
        "section 4.2, figure 4", "BLEU 33.0 at epoch 9 and 33.1 at epoch 15 (read off): 1.67 times", "x1.67 in epochs",
        None, Rule((Report(metrics.TIMES_TO_FINAL_BLEU, ("postln_warm", "preln_nowarm_anchored"), "epochs"),
                    Report(metrics.LATE_MINUS_EARLY, ("postln_warm", "preln_nowarm_anchored"), "at 15 and 9")), SECOND,
                   SECOND_AMENDMENT, judged=False),
    ),
    Claim(
        "MT-6", "RAdam trains Post-LN without warm-up, but placement matters more than the optimizer",
        "section 4.2, figure 4", "Post-LN RAdam 32.1, Adam with warm-up 33.1; Pre-LN 33.4 with both (read off)",
        "+1.3 BLEU",
        original(
            Trains("postln_nowarm_radam", least=SHARE, bleu=TRAINED_BLEU),
            Within(BLEU, ("postln_nowarm_radam",), 31, 33.5),
            Within(BLEU.minus(), ("postln_warm", "postln_nowarm_radam"), 0),
            Within(BLEU.minus(), ("preln_nowarm_radam", "preln_nowarm"), -0.5, 0.5),
            Within(metrics.DOMINANCE_BLEU, ("postln_nowarm_radam", "preln_nowarm_radam", "preln_nowarm"), 0),
            written=CORRECTED,
        ),
        amended(
            Trains("postln_nowarm_radam", least=SHARE),
            Within(metrics.DOMINANCE_LOSS, ("postln_nowarm_radam", "preln_nowarm_radam", "preln_nowarm"), 0),
            written=CORRECTED,
        ),
    ),
    Claim(
        "MT-7", "A small fixed rate trains Post-LN slowly without warm-up", "appendix H, figure 6",
        "0.0001: loss about 4.3 after 27 epochs; below the large rate's, above the best (text)", "loss 4.3",
        original(Within(metrics.FINAL_LOSS, ("postln_nowarm_fixed",), 4.1, 4.5), *BETWEEN), amended(*BETWEEN),
    ),
    Claim(
        "WMT-1", "Pre-LN without warm-up is comparable on WMT14 too, at both rates", "section 4.2, figure 4(c, d)",
        "no numbers", "-",
        original(*(Within(BLEU.minus(), pair, -1) for pair in AT_BOTH_RATES),
                 *(Within(LOSS.minus(), pair, high=LOSS_MARGIN) for pair in AT_BOTH_RATES)),
        setting="wmt",
    ),
    Claim(
        "WMT-2", "Pre-LN converges faster on WMT14 at equal rates", "section 4.2",
        'no numbers ("similar observations")', "-",
        original(*(Within(metric, (post, pre), NO_FASTER)
                   for metric in (metrics.EPOCHS_TO_BLEU, metrics.EPOCHS_TO_LOSS) for pre, post in AT_BOTH_RATES)),
        setting="wmt",
    ),
)  # fmt: skip
