"""The metrics that criteria use: quantities of one run, or of runs of several arms with the same seed."""

import math
from functools import partial

import numpy as np

from ln_repro.claims.criteria import Metric
from ln_repro.claims.intervals import LOG, PERCENT
from ln_repro.records.archive import Run

PART_OF_FALL = 0.9
"""Part of the fall in training loss that is the target when convergence is compared."""
PART_OF_RUN = 0.7
"""Part of Post-LN's pre-training after which its loss is the target: the paper's 700k of more than 1,000k updates."""
EARLY_EPOCH, LAST_EPOCH = 9, 15
"""The epoch of Pre-LN that is compared with Post-LN's last epoch (section 4.2)."""
TOKENISED, VALID_LOSS = "test_bleu_tokenised", "valid_loss"


def reached(curve: dict[int, float], target: float, falling: bool = False) -> float:
    """Return where a rising or falling curve first reaches the target, interpolated linearly; infinite if never."""
    before: tuple[int, float] | None = None
    for at, value in sorted(curve.items()):
        if value <= target if falling else value >= target:
            if before is None:
                return float(at)
            share = (target - before[1]) / (value - before[1])
            return before[0] + share * (at - before[0])
        before = at, value
    return math.inf


def _epochs_to(column: str, falling: bool, post: Run, pre: Run) -> float:
    target = pre.curve(column).get(EARLY_EPOCH)  # None: Pre-LN diverged before
    return reached(post.curve(column), target, falling) / EARLY_EPOCH if target is not None else 0.0


def _late_minus_early(post: Run, pre: Run) -> float:
    return post.curve(TOKENISED).get(LAST_EPOCH, 0.0) - pre.curve(TOKENISED).get(EARLY_EPOCH, 0.0)


def _updates_to_fall(post: Run, pre: Run) -> float:
    slow, fast = (run.training_curve if run.finite else {} for run in (post, pre))
    if any(not curve and not run.diverged for curve, run in ((slow, post), (fast, pre))):
        return math.nan  # the record has no events
    if not slow:
        return math.inf if fast else math.nan
    values = [*slow.values()]
    target = values[0] - PART_OF_FALL * (values[0] - min(values))
    return reached(slow, target, falling=True) / reached(fast, target, falling=True)


def _updates_to_pretraining_loss(post: Run, pre: Run) -> float:
    slow, fast = (run.curve(VALID_LOSS, by="update") if run.finite else {} for run in (post, pre))
    if not slow:
        return math.inf if fast else math.nan
    target = at(slow, PART_OF_RUN * max(slow))
    return reached(slow, target, falling=True) / reached(fast, target, falling=True)


def at(curve: dict[int, float], place: float) -> float:
    """Return the value of a curve at a point, interpolated linearly; before the first point, the first value."""
    points = sorted(curve)
    return float(np.interp(place, points, [curve[point] for point in points]))


def _loss_gap(*runs: Run) -> float:
    """Return the loss of the first run minus the lowest of the others', after the last epoch that all of them have.

    The loss of a run that diverged is infinite.
    """
    curves = [run.curve(VALID_LOSS) if run.finite else {} for run in runs]
    last = min((max(curve) for curve in curves if curve), default=0)
    loss, *others = (curve.get(last, math.inf) for curve in curves)
    return loss - min(others)


def _dominance(quantity: str, sign: int) -> Metric:
    """Return placement's effect under RAdam minus the optimizer's in Pre-LN; ``sign`` is 1 if higher is better."""
    name = "BLEU" if sign > 0 else "the loss"

    def contrast(post_radam: Run, pre_radam: Run, pre: Run) -> float:
        post, both, adam = (getattr(run, quantity) for run in (post_radam, pre_radam, pre))
        return float(sign * (both - post) - abs(both - adam))

    return Metric(
        f"effect of the placement on {name} under RAdam without warm-up minus that of the optimizer in Pre-LN", contrast
    )


def _ramp_by_rate(*runs: Run) -> float:
    none, short, whole, none_high, short_high, whole_high = (run.final_loss for run in runs)
    low, high = (none + short) / 2 - whole, (none_high + short_high) / 2 - whole_high
    return high - low


BLEU = Metric("BLEU of {}", lambda run: run.bleu, PERCENT)
LOSS = Metric("loss of {}", lambda run: run.loss)
FINAL_LOSS = Metric("final loss of {}", lambda run: run.final_loss)
FINAL_NLL = Metric("final NLL of {}", lambda run: run.final_nll)
EPOCHS_TO_BLEU, EPOCHS_TO_LOSS = (
    Metric(f"epochs of {{}} over those of {{}} to the latter's {name} at epoch {EARLY_EPOCH}",
           partial(_epochs_to, column, falling), LOG)
    for name, column, falling in (("BLEU", TOKENISED, False), ("loss", VALID_LOSS, True))
)  # fmt: skip
LATE_MINUS_EARLY = Metric(
    f"BLEU of {{}} at epoch {LAST_EPOCH} minus that of {{}} at epoch {EARLY_EPOCH}", _late_minus_early
)
UPDATES_TO_FALL = Metric(
    "updates of {0} over those of {1} to the training loss at which {0} has completed 90 % of its decrease",
    _updates_to_fall, LOG,
    "{0} takes {value} times as many updates as {1} to reach the training loss at which {0} has completed 90 % of its "
    "decrease",
)  # fmt: skip
UPDATES_TO_PRETRAINING_LOSS = Metric(
    f"updates of {{}} over those of {{}} to the former's validation loss after {PART_OF_RUN:.0%} of its run",
    _updates_to_pretraining_loss, LOG,
)  # fmt: skip
LOSS_GAP = Metric("loss of {} minus that of {}, after equally many epochs", _loss_gap)
ABOVE_THE_BETTER = Metric("loss of {} minus that of the better of {} and {}, after equally many epochs", _loss_gap)
RAMP_BY_RATE = Metric(
    "bits of final loss that shortening Post-LN's ramp (to an eighth and to none) costs at the higher rate minus "
    "what it costs at the lower", _ramp_by_rate,
)  # fmt: skip
DOMINANCE_BLEU, DOMINANCE_LOSS = _dominance("bleu", 1), _dominance("loss", -1)
