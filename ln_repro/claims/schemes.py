"""Claims TH-10, about gradients after the ramp, and X-1 to X-4, made by the authors of later schemes."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from statistics import fmean

from ln_repro.claims.criteria import MORE_SEEDS, AnyOf, Claim, Finding, Metric, Report, Rule, Trains, Within, unmeasured
from ln_repro.claims.depth import AtDepth
from ln_repro.claims.evidence import Evidence
from ln_repro.claims.intervals import LOG, interval
from ln_repro.claims.metrics import BLEU, FINAL_LOSS, FINAL_NLL
from ln_repro.claims.probes import NEAR, layer_gradients, unevenness_after
from ln_repro.claims.translation import FIRST, REGISTRY, TRAINED_BLEU, amended
from ln_repro.claims.verdict import INCONCLUSIVE, all_of, verdict
from ln_repro.claims.words import arm_words, spoken
from ln_repro.records.archive import Run

WRITTEN = "2026-11-21T19:51Z"
"""When the rules for the schemes were written: before any run of a scheme."""
DEPTHS = "2026-11-23T17:00Z"
"""When the rule for depths was widened from the two greater depths of a setting to any: before any deeper run."""
PROBED = "2026-11-25T16:39Z"
"""When runs without `PROBE_BATCHES` were left out of TH-10 and X-4, instead of required to have them."""
REVIEWED = "2026-11-26T02:45Z"
"""When X-4 began to need probes near its points, and to compare BLEU on all data (see `docs/amendments.md`)."""
PROBE_BATCHES = 100
"""Minimum number of mini-batches per probe; the noise of the mean gradient falls with the square root."""
EVEN = 3.0
"""Maximum ratio of the largest to the smallest layer gradient of a well-conditioned scheme."""
NON_INFERIOR_BLEU, NON_INFERIOR_LOSS = -0.3, 1.02
"""A scheme matches Post-LN if its BLEU minus Post-LN's, or the ratio of the losses, is within this limit."""
FEW = 1 / 3
"""Maximum share of the seeds that train if a scheme fails."""
CHECKPOINTS = (0.0, 1 / 15, 1 / 3, 1.0)
"""Parts of a run after which gradients are compared: the start and epochs 1, 5 and 15 of 15."""


def gradients(run: Run, update: int, kind: str = "norm_of_mean") -> list[float]:
    """Return the gradient norm of W2 by decoder layer at the first probe at or after an update, or else the last.

    The list is empty if no probe averages over `PROBE_BATCHES`.
    """
    probes = layer_gradients(run, PROBE_BATCHES, kind)
    return probes[min((at for at in probes if at >= update), default=max(probes))] if probes else []


def _after_ramp(run: Run, kind: str = "norm_of_mean") -> list[float]:
    return gradients(run, run.record.axes.warmup_updates, kind)


def _over_start(run: Run, reduce: Callable[[list[float]], float] = itemgetter(-1), kind: str = "norm_of_mean") -> float:
    """Return the gradient after the ramp, the last layer's or as reduced, over the last layer's at the start."""
    start = gradients(run, 0, kind)
    return reduce(_after_ramp(run, kind)) / start[-1] if start else math.nan


AFTER_RAMP = f"(W2 of the decoder, mean gradient of {PROBE_BATCHES} batches)"
LARGEST = Metric(f"largest gradient of a layer of {{}} after the ramp {AFTER_RAMP}",
                 lambda run: max(_after_ramp(run), default=math.nan))  # fmt: skip
LARGEST_RATIO = Metric(f"the same of {{}} over the last layer's at the start {AFTER_RAMP}",
                       partial(_over_start, reduce=max), LOG)  # fmt: skip
LAST_RATIO = Metric(f"last layer's gradient of {{}} after the ramp over that at the start {AFTER_RAMP}",
                    _over_start, LOG)  # fmt: skip
LAST_RATIO_OF_NORMS = Metric("the same of {} with the mean of the batches' norms",
                             partial(_over_start, kind="mean_of_norms"), LOG)  # fmt: skip


@dataclass(frozen=True)
class MatchesBest:
    """An arm's BLEU is no worse than that of the best tuned Post-LN arm, which is chosen by its loss."""

    arm: str
    tuned: tuple[str, ...]

    @property
    def arms(self) -> tuple[str, ...]:
        return self.arm, *self.tuned

    def _beside(self, tuned: str) -> Within:
        return Within(BLEU.minus(), (self.arm, tuned), NON_INFERIOR_BLEU)

    def sentence(self) -> str:
        best = "the Post-LN with warm-up of lowest loss"
        return self._beside(self.tuned[0]).sentence().replace(arm_words(self.tuned[0]), best)

    def judge(self, evidence: Evidence) -> Finding:
        best = min(self.tuned, key=lambda arm: fmean(evidence.values((arm,), lambda run: run.loss)))
        return self._beside(best).judge(evidence)


@dataclass(frozen=True)
class Even:
    """The largest layer gradient of an arm is at most `EVEN` times the smallest, at each of `CHECKPOINTS`."""

    arm: str

    @property
    def arms(self) -> tuple[str, ...]:
        return (self.arm,)

    def sentence(self) -> str:
        return (
            f"W2's gradient in the decoder's layers of {arm_words(self.arm)} (mean of {PROBE_BATCHES} batches) at most "
            f"{EVEN:g} times as large in one as in another, at the start and after 1/15, 1/3 and all of the run (a "
            f"probe at most {NEAR:.0%} of the run away)"
        )

    def judge(self, evidence: Evidence) -> Finding:
        values = [
            evidence.values(self.arms, partial(unevenness_after, part=part, batches=PROBE_BATCHES))
            for part in CHECKPOINTS
        ]
        if short := unmeasured(min(map(len, values)), len(evidence.seeds(self.arms)), self.arms):
            return short
        if any(math.isnan(value) for of_checkpoint in values for value in of_checkpoint):
            return Finding(INCONCLUSIVE, "", answer=f"{arm_words(self.arm)} has runs that are not finite")
        worst = max(values, key=lambda of_checkpoint: interval(of_checkpoint, LOG)[1])
        result = all_of(verdict(interval(of_checkpoint, LOG), (0.0, EVEN)) for of_checkpoint in values)
        words = f"gradients of {arm_words(self.arm)} {spoken(worst, LOG)}"
        return Finding(result, words, MORE_SEEDS if result == INCONCLUSIVE else None, seeds=min(map(len, values)))


def _deeper(scheme: str, bleu: float | None, layers: tuple[int, ...] = ()) -> AtDepth:
    return AtDepth((Trains("postln_warm", most=FEW, bleu=bleu), Trains(scheme, least=1, bleu=bleu)), layers)


def _rezero(bleu: float | None) -> tuple[Trains | Report, ...]:
    return (
        *(Trains(arm, least=1, bleu=bleu) for arm in ("rezero_nowarm", "rezero_nowarm_step")),
        Report(BLEU.minus(), ("rezero_nowarm", "postln_warm")),
    )


def _open_question(bleu: float | None) -> AnyOf:
    tuned = ("postln_warm", "postln_warm_high", "postln_warm_short")
    arms = ("preln_nowarm_anchored", "deepnorm_nowarm", "rezero_nowarm", "admin_nowarm")
    parts = tuple(
        (Even(arm), Trains(arm, least=1, bleu=bleu), Trains(f"{arm}_high", least=1, bleu=bleu), MatchesBest(arm, tuned),
         Report(FINAL_NLL.over(), (arm, "postln_warm")))
        for arm in arms
    )  # fmt: skip
    return AnyOf(parts, "for one of these schemes", arms)


ADMIN = (("admin_warm", "postln_warm"), ("admin_warm_closed", "postln_warm"))
SCHEMES = (
    Claim(
        "TH-10", "Post-LN: gradients are tiny after warm-up", "section 3.4, figure 3(a, b)",
        "about 0.015 in every layer, 110 times below layer 6 at initialisation (read off)",
        Rule((Within(LARGEST, ("postln_warm",), high=0.1), Within(LARGEST_RATIO, ("postln_warm",), high=1 / 20),
              Report(LAST_RATIO_OF_NORMS, ("postln_warm",))), FIRST, REGISTRY),
        Rule((Within(LAST_RATIO, ("postln_warm",), high=1 / 5), Report(LAST_RATIO_OF_NORMS, ("postln_warm",))),
             PROBED, "one of the first rules; the number of batches as on the paper's data"),
    ),
    Claim(
        "X-1", "DeepNorm trains at depths where Post-LN fails", "Wang et al. 2022; Liu et al. 2020",
        "Post-LN fails at 18-18 on WMT14; DeepNorm 28.8, 29.0, 28.9 at 18, 50, 100 on WMT17",
        Rule((_deeper("deepnorm_warm", TRAINED_BLEU, (6, 12, 18)),), DEPTHS, REGISTRY),
        Rule((_deeper("deepnorm_warm", None),), DEPTHS, "the amendment's measure; any depth, as in the first rule"),
    ),
    Claim(
        "X-2", "ReZero needs neither warm-up nor norm", "Bachlechner et al. 2020",
        "34.66 on IWSLT14, 1 to 2 below others",
        Rule(_rezero(TRAINED_BLEU), WRITTEN, REGISTRY), amended(*_rezero(None)),
    ),
    Claim(
        "X-3", "Admin matches or betters Post-LN", "Liu et al. 2020",
        "35.67 +- 0.15 and 35.64 +- 0.23 on IWSLT14; trains at 18-18 on WMT14, where Post-LN does not",
        Rule((*(Within(BLEU.minus(), pair, NON_INFERIOR_BLEU) for pair in ADMIN),
              _deeper("admin_warm", TRAINED_BLEU, (18,))), WRITTEN, REGISTRY),
        amended(*(Within(FINAL_LOSS.over(), pair, high=NON_INFERIOR_LOSS) for pair in ADMIN),
                *(Report(FINAL_NLL.over(), pair) for pair in ADMIN)),
    ),
    Claim(
        "X-4", "Some scheme has even gradients throughout training and reaches Post-LN's final quality",
        "open question", "none claimed",
        Rule((_open_question(TRAINED_BLEU),), REVIEWED, REGISTRY), amended(_open_question(None), written=REVIEWED),
    ),
)  # fmt: skip
