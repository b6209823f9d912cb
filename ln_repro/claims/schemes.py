"""Claims TH-10, about gradients after the ramp, and X-1 to X-4, made by the authors of later schemes."""

import math
from functools import partial

from ln_repro.claims.criteria import Claim, Report, Rule, Trains, Within
from ln_repro.claims.depth import AtDepth
from ln_repro.claims.effects import Metric
from ln_repro.claims.intervals import LOG
from ln_repro.claims.metrics import BLEU, FINAL_NLL
from ln_repro.claims.probes import layer_gradients, unevenness_after
from ln_repro.claims.translation import REGISTRY, SECOND, TRAINED_BLEU, amended
from ln_repro.claims.words import arm_words
from ln_repro.records.archive import Run

WRITTEN = "2026-11-21T19:51Z"
"""When the rules for the schemes were written: before any run of a scheme."""
DEPTHS = "2026-11-23T17:00Z"
"""When the rule for depths was widened from the two greater depths of a setting to any: before any deeper run."""
PROBE_BATCHES = 100
"""Minimum number of mini-batches per probe; the noise of the mean gradient falls with the square root."""
NON_INFERIOR_BLEU, NON_INFERIOR_NLL = -0.3, 1.02
"""A scheme matches Post-LN if its BLEU minus Post-LN's, or the ratio of the NLLs, is within this limit."""
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


def _over_start(run: Run, kind: str = "norm_of_mean") -> float:
    """Return the last layer's gradient after the ramp over that at the start."""
    start = gradients(run, 0, kind)
    return gradients(run, run.record.axes.warmup_updates, kind)[-1] / start[-1] if start else math.nan


AFTER_RAMP = f"(W2 of the decoder, mean gradient of {PROBE_BATCHES} batches)"
LAST_RATIO = Metric(
    f"last layer's gradient of {{}} after the ramp over that at the start {AFTER_RAMP}", _over_start, "x{}", LOG
)
LAST_RATIO_OF_NORMS = Metric(
    "the same of {} with the mean of the batches' norms", partial(_over_start, kind="mean_of_norms"), "x{}", LOG
)
NLL_RATIO = FINAL_NLL.over("x{} in NLL")
UNEVEN = Metric(
    f"largest over smallest gradient of a layer of {{}} {AFTER_RAMP}, the greatest at the start and after 1/15, 1/3 "
    "and all of the run",
    lambda run: max(unevenness_after(run, part, PROBE_BATCHES) for part in CHECKPOINTS), "x{}", LOG,
)  # fmt: skip


def _deeper(scheme: str, bleu: float | None, layers: tuple[int, ...] = ()) -> AtDepth:
    return AtDepth((Trains("postln_warm", most=FEW, bleu=bleu), Trains(scheme, least=1, bleu=bleu)), layers)


def _rezero(bleu: float | None) -> tuple[Trains | Report, ...]:
    return (
        *(Trains(arm, least=1, bleu=bleu) for arm in ("rezero_nowarm", "rezero_nowarm_step")),
        Report(BLEU.minus(), ("rezero_nowarm", "postln_warm")),
    )


SHOWN = "second amendment of the rules: their limits had been arbitrary"
OPEN = ("preln_nowarm_anchored", "deepnorm_nowarm", "rezero_nowarm", "admin_nowarm")
TINY = Rule(
    (
        Report(LAST_RATIO, ("postln_warm",), "last layer's gradient after the ramp over that at the start"),
        Report(LAST_RATIO_OF_NORMS, ("postln_warm",), "the same with the mean of the batches' norms"),
    ),
    SECOND, SHOWN, judged=False,
)  # fmt: skip
EVEN = Rule(
    tuple(
        Report(metric, (arm, *other), f"{arm_words(arm)}, {label}")
        for arm in OPEN
        for metric, other, label in (
            (UNEVEN, (), "largest over smallest gradient"),
            (NLL_RATIO, ("postln_warm",), "against Post-LN with warm-up"),
        )
    ),
    SECOND, SHOWN, judged=False,
)  # fmt: skip
"""Of TH-10 and X-4, only numbers are shown."""
ADMIN = (("admin_warm", "postln_warm"), ("admin_warm_closed", "postln_warm"))
LATER = (
    Claim(
        "TH-10", "Post-LN: gradients are tiny after warm-up", "section 3.4, figure 3(a, b)",
        "about 0.015 in every layer, 110 times below layer 6 at initialisation (read off)", "x0.009",
        TINY, TINY,
    ),
    Claim(
        "X-1", "DeepNorm trains at depths where Post-LN fails", "Wang et al. 2022; Liu et al. 2020",
        "Post-LN fails at 18-18 on WMT14; DeepNorm 28.8, 29.0, 28.9 at 18, 50, 100 on WMT17", "18 to 100 layers",
        Rule((_deeper("deepnorm_warm", TRAINED_BLEU, (6, 12, 18)),), DEPTHS, REGISTRY),
        Rule((_deeper("deepnorm_warm", None),), DEPTHS, "the amendment's measure; any depth, as in the first rule"),
    ),
    Claim(
        "X-2", "ReZero needs neither warm-up nor norm", "Bachlechner et al. 2020",
        "34.66 on IWSLT14, 1 to 2 below others", "34.66 BLEU",
        Rule(_rezero(TRAINED_BLEU), WRITTEN, REGISTRY), amended(*_rezero(None)),
    ),
    Claim(
        "X-3", "Admin matches or betters Post-LN", "Liu et al. 2020",
        "35.67 +- 0.15 and 35.64 +- 0.23 on IWSLT14; trains at 18-18 on WMT14, where Post-LN does not", "+0.03 BLEU",
        Rule((*(Within(BLEU.minus(), pair, NON_INFERIOR_BLEU) for pair in ADMIN),
              _deeper("admin_warm", TRAINED_BLEU, (18,))), WRITTEN, REGISTRY),
        amended(*(Within(NLL_RATIO, pair, high=NON_INFERIOR_NLL) for pair in ADMIN), written=SECOND),
    ),
    Claim(
        "X-4", "Some scheme has even gradients throughout training and reaches Post-LN's final quality",
        "open question", "none claimed", "-",
        EVEN, EVEN,
    ),
)  # fmt: skip
