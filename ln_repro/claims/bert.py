"""The claims on BERT (sections 4.1, 4.2, figure 5): pre-training, and fine-tuning on MRPC and RTE; losses in bits."""

import math
from dataclasses import dataclass
from statistics import fmean

from ln_repro.claims.criteria import Claim, Finding, Metric, Report, Rule, Within
from ln_repro.claims.evidence import Evidence
from ln_repro.claims.intervals import interval
from ln_repro.claims.metrics import UPDATES_TO_PRETRAINING_LOSS
from ln_repro.claims.rates import Ceilings
from ln_repro.claims.translation import AMENDED, AMENDMENT
from ln_repro.claims.verdict import CONTRADICTED, INCONCLUSIVE, REPRODUCED, all_of, verdict
from ln_repro.claims.words import arm_words, spoken
from ln_repro.records.archive import Run

WRITTEN = "2026-11-21T20:08Z"
"""When these rules were written: before any run that they judge."""
SOURCE = "the paper's 1.4 times with a margin; half a nat for a run that is not trained"
LOST = 0.5 / math.log(2)
"""Bits (half a nat) above Post-LN's loss at the low rate at which a run has not been trained."""
PART_OF_CHECKPOINTS = 2 / 3
"""Of the checkpoints, in which Pre-LN's accuracy has to be the higher."""
FINE_TUNING_SEEDS = 6
"""The paper's."""
POST_HIGH, PRE_HIGH, POST_LOW = "postln_warm_linear_high", "preln_nowarm_linear_high", "postln_warm_linear"


@dataclass(frozen=True)
class NotTrained:
    """A run of one arm diverges, or ends far above another arm's loss, in most seeds or in none.

    Code of its own: it counts seeds by two conditions of which either will do.
    """

    arm: str
    beside: str
    most: bool

    @property
    def arms(self) -> tuple[str, ...]:
        """Both."""
        return self.arm, self.beside

    def sentence(self) -> str:
        """Return the condition in words."""
        return (
            f"{arm_words(self.arm)} diverges, or ends at least {LOST:.2f} bits (half a nat) above "
            f"{arm_words(self.beside)}, in {'most seeds' if self.most else 'no seed'}"
        )

    def judge(self, evidence: Evidence) -> Finding:
        """Return the finding."""
        hits = evidence.values(self.arms, lambda run, low: run.diverged or run.loss - low.loss >= LOST)
        held = 2 * sum(hits) > len(hits) if self.most else not any(hits)
        words = f"{arm_words(self.arm)} not trained in {sum(hits):g} of {len(hits)}"
        return Finding(REPRODUCED if held else CONTRADICTED, words)


@dataclass(frozen=True)
class FineTunesFaster:
    """From equally long pre-training, one arm's accuracy is the higher in so many checkpoints, and over all of them.

    Code of its own: runs are paired by seed and by the checkpoint that they start from, and a seed counts if it was run
    from all of them.
    """

    first: str
    second: str
    share: float = PART_OF_CHECKPOINTS
    least: float = 0.0

    @property
    def arms(self) -> tuple[str, ...]:
        """Both."""
        return self.first, self.second

    def sentence(self) -> str:
        """Return the condition in words."""
        return (
            f"accuracy, mean over seeds: {arm_words(self.first)} above {arm_words(self.second)} in at least "
            f"{self.share:.0%} of the checkpoints that follow equally long pre-training; difference over all of them "
            f"above {self.least:g}"
        )

    def judge(self, evidence: Evidence) -> Finding:
        """Return the finding."""
        compared = [one for one in evidence.by_start if not one.missing(self.arms)]
        seeds = (
            sorted(set.intersection(*({*one.arms[arm]} for one in compared for arm in self.arms))) if compared else []
        )
        if len(seeds) < 2:
            return Finding(
                INCONCLUSIVE, "", f"{' and '.join(self.arms)} with the same seeds from equally long pre-training"
            )
        pre, post = ([[100 * one.arms[arm][seed].accuracy for seed in seeds] for one in compared] for arm in self.arms)
        above = [fmean(first) > fmean(second) for first, second in zip(pre, post, strict=True)]
        gaps = [
            fmean(one) - fmean(other)
            for one, other in zip(zip(*pre, strict=True), zip(*post, strict=True), strict=True)
        ]
        parts = [
            REPRODUCED if sum(above) >= self.share * len(above) else CONTRADICTED,
            verdict(interval(gaps), (self.least, math.inf)),
        ]
        words = f"above at {sum(above)} of {len(above)} checkpoints; points of accuracy {spoken(gaps)}"
        found = all_of(parts)
        few = found == INCONCLUSIVE or len(seeds) < FINE_TUNING_SEEDS
        return Finding(INCONCLUSIVE if len(seeds) < FINE_TUNING_SEEDS else found, words,
                       f"{FINE_TUNING_SEEDS} seeds or more of every checkpoint" if few else None)  # fmt: skip


def _loss(run: Run) -> float:
    return run.loss


LOSS_BITS = Metric("loss of {}", _loss)
CONTROLS = tuple(
    Report(UPDATES_TO_PRETRAINING_LOSS, pair)
    for pair in ((POST_LOW, "preln_nowarm_linear"), (POST_LOW, "preln_warm_linear"))
)
"""Pairs of arms that differ less than those of BERT-1, which change placement, rate and ramp at once."""


def _faster(least: float, most: float = math.inf) -> Rule:
    return Rule((Within(UPDATES_TO_PRETRAINING_LOSS, (POST_LOW, PRE_HIGH), least, most), *CONTROLS), WRITTEN, SOURCE)


def _fine_tuning(first: str, second: str) -> Rule:
    return Rule(
        (FineTunesFaster(first, second),), "2026-11-21T20:57Z", "the paper's figure has no numbers", FINE_TUNING_SEEDS
    )


PRETRAINING = (
    Claim(
        "BERT-1", "Pre-LN reaches the same loss earlier in pre-training", "section 4.2, figure 5(a)",
        "1.69 nats (2.44 bits) after 500k updates (Pre-LN) and 700k (Post-LN): 1.4 times; the paper's sentence has the "
        "two names swapped, its figure has not",
        _faster(1.15, 1.7), _faster(1), setting="bert",
    ),
    Claim(
        "BERT-2", "Post-LN diverges at 3e-4 in pre-training, Pre-LN trains there without warm-up", "section 4.1",
        "diverged and trained (text; whether Post-LN had its warm-up is not stated)",
        Rule((NotTrained(POST_HIGH, POST_LOW, most=True), NotTrained(PRE_HIGH, POST_LOW, most=False),
              *(Report(LOSS_BITS, (arm,)) for arm in (POST_HIGH, PRE_HIGH, POST_LOW))), WRITTEN, SOURCE),
        Rule((Ceilings("preln_nowarm_linear", POST_LOW, masked=True),), AMENDED, AMENDMENT),
        setting="bert", grid="bert",
    ),
)  # fmt: skip
FINE_TUNING = tuple(
    Claim(
        id, f"Pre-LN checkpoints fine-tune faster on {name}", f"section 4.2, figure 5({panel})",
        "no numbers (curve above Post-LN's)", _fine_tuning("preln_nowarm_linear", "postln_nowarm_linear"),
        setting=setting,
    )
    for id, name, panel, setting in (("BERT-3", "MRPC", "b", "mrpc"), ("BERT-3.rte", "RTE", "c", "rte"))
)  # fmt: skip
