"""Claim X-5, this project's own: without warm-up the tokens of a Post-LN stack become one vector.

A pilot suggested it, so that only runs with seeds above `EXPLORED` are judged.
"""

import math
from dataclasses import dataclass

from ln_repro.claims.causes import ARMS, VANISHING, separation
from ln_repro.claims.criteria import Claim, Finding, Rule
from ln_repro.claims.effects import SEEDS, SHARE, Count, Effect
from ln_repro.claims.evidence import Evidence, Rate
from ln_repro.claims.translation import SECOND, SECOND_AMENDMENT
from ln_repro.claims.verdict import CONTRADICTED, INCONCLUSIVE, REPRODUCED
from ln_repro.claims.words import arm_words

SEPARATES = 0.9
"""Area under the ROC curve above which a measure predicts failure."""
ENCODER, DECODER, BOTH = "postln_warm_encoder", "postln_warm_decoder", "postln_warm"


@dataclass(frozen=True)
class Predicts:
    """The first layers' gradients at update 32 separate failing from training runs over schemes and rates."""

    arms = ()
    compared = ARMS

    def sentence(self) -> str:
        return (
            f"area under the ROC curve of {VANISHING.quantity}, over all runs of {', '.join(map(arm_words, ARMS))} "
            f"that fail or train: 95 % interval (resampling seeds) above {SEPARATES:g}; contradicted below"
        )

    def judge(self, evidence: Evidence) -> Finding:
        found = separation(evidence, VANISHING)
        if math.isnan(found.area):
            return Finding(INCONCLUSIVE, needs="runs with probe=collapse")
        runs = [run for run in evidence.of_arms(ARMS) if not math.isnan(VANISHING.of(run))]
        low, high = found.interval
        result = REPRODUCED if low > SEPARATES else CONTRADICTED if high < SEPARATES else INCONCLUSIVE
        missing = len(ARMS) - found.arms
        needs = f"{missing} more arms" if missing else None
        text = f"{found.effect} ({found.failing} fail, {found.training} train, {found.arms} of {len(ARMS)} arms)"
        return Finding(INCONCLUSIVE if needs else result, found.effect, text, needs, runs,
                       len({run.seed for run in runs}))  # fmt: skip


@dataclass(frozen=True)
class RampedStacks:
    """At a rate, at least `SHARE` of the seeds train with a ramp on some stacks, and at most 1 - `SHARE` on others."""

    rate: Rate
    seeds: int
    trains: str
    fails: tuple[str, ...]

    arms = ()

    @property
    def compared(self) -> tuple[str, ...]:
        return self.trains, *self.fails

    def sentence(self) -> str:
        least = math.ceil(SHARE * self.seeds)
        fail = " and ".join(f"{arm_words(arm)} in at most {self.seeds - least}" for arm in self.fails)
        return f"at {self.rate:g}, {arm_words(self.trains)} trains in at least {least} of {self.seeds} seeds, {fail}"

    def judge(self, evidence: Evidence) -> Finding:
        runs = {arm: evidence.curve(arm).get(self.rate, []) for arm in self.compared}
        counts = {arm: Count.of(evidence.trained, of_arm) for arm, of_arm in runs.items()}
        used = [run for of_arm in runs.values() for run in of_arm]
        text = "; ".join(f"{arm_words(arm)}: {count} train" for arm, count in counts.items() if count.runs)
        fewest = min(count.runs for count in counts.values())
        if fewest < self.seeds:
            lacking = ", ".join(f"{self.seeds - count.runs} of {arm}" for arm, count in counts.items()
                                if count.runs < self.seeds)  # fmt: skip
            return Finding(INCONCLUSIVE, None, text, f"seeds at {self.rate:g}: {lacking}", used, fewest)
        holds = counts[self.trains].share >= SHARE and all(counts[arm].share <= 1 - SHARE + 1e-9 for arm in self.fails)
        gap = counts[self.trains].share - max(counts[arm].share for arm in self.fails)
        effect = Effect(100 * gap, unit="{} % of the seeds", digits="+.0f")
        return Finding(REPRODUCED if holds else CONTRADICTED, effect, text, runs=used, seeds=fewest)


def _rule(*criteria: Predicts | RampedStacks, seeds: int = SEEDS) -> Rule:
    return Rule(criteria, SECOND, SECOND_AMENDMENT, seeds)


RAMPS = f"rates arms={BOTH},{ENCODER},{DECODER}"
COLLAPSE = (
    Claim(
        "X-5a", "The first layers' vanishing gradients predict which runs fail", "ours", "not in the paper", "-", None,
        _rule(Predicts()), explored=False, grid=f"rates arms={','.join(ARMS)}",
    ),
    Claim(
        "X-5b", "Just above its limit, Post-LN needs warm-up in the encoder alone", "ours", "not in the paper", "-",
        None,
        by_setting={"toy": _rule(RampedStacks(0.002, 5, ENCODER, (DECODER,))),
                    "multi30k6": _rule(RampedStacks(0.001, 3, ENCODER, (DECODER,)), seeds=3)},
        explored=False, grid=f"{RAMPS} rates=0.001,0.002",
    ),
    Claim(
        "X-5c", "At higher rates, Post-LN needs warm-up in both stacks", "ours", "not in the paper", "-", None,
        by_setting={"toy": _rule(RampedStacks(0.004, 5, BOTH, (ENCODER, DECODER))),
                    "multi30k6": _rule(RampedStacks(0.002, 3, BOTH, (ENCODER, DECODER)), seeds=3)},
        explored=False, grid=f"{RAMPS} rates=0.002,0.004",
    ),
)  # fmt: skip
