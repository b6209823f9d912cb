"""What is measured on runs: effects with their interval over seeds, and the metrics that criteria use."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from statistics import fmean
from typing import NamedTuple

import numpy as np

from ln_repro.claims.intervals import LEVEL, LINEAR, LOG, UNBOUNDED, Interval, Scale
from ln_repro.claims.words import arm_words
from ln_repro.records.archive import Run

SEEDS = 5  # needed for a verdict on training
SHARE = 0.8  # minimum share of the seeds that must train (fail) for an arm to count as trained (failed)
LEVELS = 0.7, 0.8, 0.9  # parts of Post-LN's decrease whose times are compared; the last one decides
AVERAGED = 100  # updates over which a training curve is averaged before a crossing is read off
LEAST_VALIDATIONS = 5  # minimum number of validations for a curve
PART_OF_RUN = 0.7
"""Part of Post-LN's pre-training after which its loss is the target: the paper's 700k of more than 1,000k updates."""
EARLY_EPOCH, LAST_EPOCH = 9, 15  # the epoch of Pre-LN that is compared with Post-LN's last epoch (section 4.2)
TOKENISED, VALID_LOSS, VALID_NLL = "test_bleu_tokenised", "valid_loss", "valid_nll_loss"
Curve = Mapping[int, float] | Mapping[float, float]
"""A quantity by epoch or update, in ascending order; averages stand between two updates."""


class Count(NamedTuple):
    """A number of runs out of all, "4 of 5"."""

    hits: int
    runs: int

    @classmethod
    def of(cls, condition: Callable[[Run], bool], runs: Iterable[Run]) -> "Count":
        met = [condition(run) for run in runs]
        return cls(sum(met), len(met))

    def __str__(self) -> str:
        return f"{self.hits} of {self.runs}"

    @property
    def share(self) -> float:
        """The share of the runs; there must be some."""
        return self.hits / self.runs


@dataclass(frozen=True)
class Effect:
    """A quantity with its 95 % interval over seeds; inf (-inf) if only the interval's lower (upper) end is known."""

    value: float
    interval: Interval = UNBOUNDED
    unit: str = "{}"  # the number's place in its text
    digits: str = ".3g"

    def __str__(self) -> str:
        low, high = (f"{end:{self.digits}}" for end in self.interval)
        if math.isinf(self.value):
            return f"at least {self.unit.format(low)}" if self.value > 0 else f"at most {self.unit.format(high)}"
        if math.isnan(self.value):
            return "not finite"
        number = f"{self.value:{self.digits}}"
        return self.unit.format(number if self.interval == UNBOUNDED else f"{number} [{low}, {high}]")


@dataclass(frozen=True)
class Metric:
    """A quantity measured on one run, or on several runs with the same seed."""

    words: str  # its name, with one ``{}`` per arm
    of: Callable[..., float]  # computes the quantity from one run per arm
    unit: str = "{}"
    scale: Scale = LINEAR
    digits: str = ".3g"

    def name(self, arms: Sequence[str]) -> str:
        return self.words.format(*map(arm_words, arms))

    def minus(self) -> "Metric":
        """Return the metric's difference between two arms."""
        return replace(self, words=f"{self.words} minus that of {{}}", scale=LINEAR, digits="+.2g",
                       of=lambda first, second: self.of(first) - self.of(second))  # fmt: skip

    def effect(self, values: Sequence[float], level: float = LEVEL) -> Effect:
        """Return the mean of values with its interval; without one for fewer than two or infinite values."""
        if not values or not self.scale.has(values):
            return Effect(math.nan, UNBOUNDED, self.unit, self.digits)
        bounds = self.scale.interval(values, level) if len(values) > 1 else UNBOUNDED
        return Effect(self.scale.mean(values), bounds, self.unit, self.digits)


def more_seeds(values: Sequence[float], regions: Sequence[Interval], scale: Scale, level: float = LEVEL) -> str | None:
    """Return how many seeds would decide if mean and spread stayed the same; None if no number would.

    The interval's half-width falls with the square root of the number.
    """
    if not scale.has(values) or len(values) < 2:
        return f"{SEEDS} seeds" if len(values) < SEEDS else None
    low, high = map(scale.transform, scale.interval(values, level))
    ends = [scale.transform(end) for region in regions for end in region if math.isfinite(end)]
    distance = min((abs((low + high) / 2 - end) for end in ends if low < end < high), default=0.0)
    return f"about {math.ceil(len(values) * ((high - low) / 2 / distance) ** 2)} seeds" if distance else None


def reached(curve: Curve, target: float, falling: bool = False) -> float:
    """Return where a rising or falling curve first reaches the target, interpolated linearly; infinite if never."""
    before: tuple[float, float] | None = None
    for at, value in curve.items():
        if value <= target if falling else value >= target:
            if before is None:
                return float(at)
            share = (target - before[1]) / (value - before[1])
            return before[0] + share * (at - before[0])
        before = at, value
    return math.inf


def _decoded(*runs: Run) -> bool:
    """Return whether some runs were decoded after every epoch; with `eval.epochs`, a BLEU may be unknown."""
    return all(run.experiment.eval.decodes(row.epoch) for run in runs for row in run.record.epochs)


def _epochs_to(column: str, falling: bool, post: Run, pre: Run) -> float:
    if column == TOKENISED and not (_decoded(post) and pre.experiment.eval.decodes(EARLY_EPOCH)):
        return math.nan
    target = pre.curve(column).get(EARLY_EPOCH)  # None: Pre-LN diverged before
    return reached(post.curve(column), target, falling) / EARLY_EPOCH if target is not None else 0.0


def _late_minus_early(post: Run, pre: Run) -> float:
    decoded = post.experiment.eval.decodes(LAST_EPOCH) and pre.experiment.eval.decodes(EARLY_EPOCH)
    if min(post.epochs, pre.epochs) < LAST_EPOCH or not decoded:
        return math.nan
    return post.curve(TOKENISED).get(LAST_EPOCH, 0.0) - pre.curve(TOKENISED).get(EARLY_EPOCH, 0.0)


def validated(*runs: Run) -> bool:
    """Return whether all of some runs have enough validations for a curve."""
    return min((len(run.curve(VALID_NLL)) for run in runs), default=0) >= LEAST_VALIDATIONS


def falling(run: Run, by_epoch: bool) -> Curve:
    """Return the validation NLL by epoch, or the training loss by update; nothing if a number is not finite.

    The training loss is averaged over about `AVERAGED` updates at a time, except for its first value. Since each of the
    record's values stands for the updates before it, times are read 20 to 30 updates late on toy.
    """
    if not run.finite:
        return {}
    if by_epoch:
        return run.curve(VALID_NLL)
    curve = run.training_curve
    windows = [[*updates] for _, updates in groupby(curve, lambda update: math.ceil(update / AVERAGED))]
    means = {fmean(updates): fmean(curve[update] for update in updates) for updates in windows}
    first = min(curve, default=math.inf)
    return {at: curve[at] for at in curve if at == first} | {at: mean for at, mean in means.items() if at > first}


def _times_to_fall(level: float, post: Run, pre: Run) -> float:
    """Return the time that Post-LN needs for a part of its decrease over the time that Pre-LN needs to get there."""
    by_epoch = validated(*(run for run in (post, pre) if run.finite))
    slow, fast = (falling(run, by_epoch) for run in (post, pre))
    if not slow or not fast:
        return math.inf if post.diverged and fast else 0.0 if pre.diverged and slow else math.nan
    start, *_ = slow.values()
    target = start - level * (start - min(slow.values()))
    return reached(slow, target, falling=True) / reached(fast, target, falling=True)


def _times_to_final_bleu(post: Run, pre: Run) -> float:
    """Return Post-LN's epochs over those after which Pre-LN has the BLEU of Post-LN's last epoch."""
    curve = post.curve(TOKENISED)
    if len(curve) < LEAST_VALIDATIONS or not _decoded(post, pre):
        return math.nan
    return max(curve) / reached(pre.curve(TOKENISED), curve[max(curve)])


def _updates_to_pretraining_loss(post: Run, pre: Run) -> float:
    slow, fast = (run.curve(VALID_LOSS, by="update") if run.finite else {} for run in (post, pre))
    if not slow:
        return math.inf if fast else math.nan
    target = float(np.interp(PART_OF_RUN * max(slow), [*slow], [*slow.values()]))
    return reached(slow, target, falling=True) / reached(fast, target, falling=True)


def _loss_gap(*runs: Run) -> float:
    """Return the loss of the first run minus the lowest of the others', after the last epoch that all of them have.

    The loss of a run that diverged is infinite.
    """
    curves = [run.curve(VALID_LOSS) if run.finite else {} for run in runs]
    last = min((max(curve) for curve in curves if curve), default=0)
    loss, *others = (curve.get(last, math.inf) for curve in curves)
    return loss - min(others)


def _dominance(post_radam: float, pre_radam: float, pre: float) -> float:
    """Return by how much Pre-LN is better than Post-LN under RAdam, less what the optimizer changes in Pre-LN."""
    return pre_radam - post_radam - abs(pre_radam - pre)


def _ramp_by_rate(*runs: Run) -> float:
    none, short, whole, none_high, short_high, whole_high = (run.final_loss for run in runs)
    low, high = (none + short) / 2 - whole, (none_high + short_high) / 2 - whole_high
    return high - low


BLEU = Metric("BLEU of {}", lambda run: run.bleu, "{} BLEU")
LOSS = Metric("loss of {}", lambda run: run.loss, "{} bits")
NLL = Metric("NLL of {}", lambda run: run.nll, "{} bits")
FINAL_LOSS = Metric("final loss of {}", lambda run: run.final_loss, "{} bits")
NLL_RATIO = Metric(
    "final NLL of {} over that of {}", lambda first, second: first.final_nll / second.final_nll, "x{} in NLL", LOG
)
EPOCHS_TO_BLEU, EPOCHS_TO_LOSS = (
    Metric(f"epochs of {{}} over those of {{}} to the latter's {name} at epoch {EARLY_EPOCH}",
           partial(_epochs_to, column, falling), "x{} in epochs", LOG)
    for name, column, falling in (("BLEU", TOKENISED, False), ("loss", VALID_LOSS, True))
)  # fmt: skip
LATE_MINUS_EARLY = Metric(
    f"BLEU of {{}} at epoch {LAST_EPOCH} minus that of {{}} at epoch {EARLY_EPOCH}",
    _late_minus_early,
    "{} BLEU",
    digits="+.2g",
)
TIMES_TO_FALL = {
    level: Metric(
        "epochs of {0} over those of {1} to the validation NLL (with fewer than "
        f"{LEAST_VALIDATIONS} epochs: updates, to the training loss) at which {{0}} has made {level:.0%} of its "
        "decrease",
        partial(_times_to_fall, level),
        "x{} in epochs",
        LOG,
    )
    for level in LEVELS
}
TIMES_TO_FINAL_BLEU = Metric(
    "epochs of {} over those of {} to the former's BLEU after its last epoch",
    _times_to_final_bleu,
    "x{} in epochs",
    LOG,
)
UPDATES_TO_PRETRAINING_LOSS = Metric(
    f"updates of {{}} over those of {{}} to the former's validation loss after {PART_OF_RUN:.0%} of its run",
    _updates_to_pretraining_loss,
    "x{} in updates",
    LOG,
)
LOSS_GAP = Metric("loss of {} minus that of {}, after equally many epochs", _loss_gap, "{} bits", digits="+.2g")
ABOVE_THE_BETTER = replace(LOSS_GAP, words=LOSS_GAP.words.replace("that of {}", "that of the better of {} and {}"))
RAMP_BY_RATE = Metric(
    "bits of final loss that shortening Post-LN's ramp (to an eighth and to none) costs at the higher rate minus "
    "what it costs at the lower", _ramp_by_rate, "{} bits", digits="+.2g",
)  # fmt: skip
DOMINANCE = "effect of the placement on {} under RAdam without warm-up minus that of the optimizer in Pre-LN"
DOMINANCE_BLEU = Metric(
    DOMINANCE.format("BLEU"), lambda *runs: _dominance(*(run.bleu for run in runs)), "{} BLEU", digits="+.2g"
)
DOMINANCE_LOSS = Metric(
    DOMINANCE.format("the loss"), lambda *runs: _dominance(*(-run.loss for run in runs)), "{} bits", digits="+.2g"
)
