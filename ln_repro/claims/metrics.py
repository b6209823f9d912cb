"""What criteria measure: quantities of one run, and of runs of several arms that share a seed."""

import math

from ln_repro.claims.criteria import Metric
from ln_repro.claims.intervals import LOG, PERCENT
from ln_repro.records.archive import Run

PART_OF_FALL = 0.9
"""Of the fall in training loss, after which an arm counts as nearly there."""
PART_OF_RUN = 0.7
"""Of Post-LN's updates of pre-training, after which its loss is the one to reach: the paper's 700k of over 1,000k."""
EARLY_EPOCH, LAST_EPOCH = 9, 15
"""Pre-LN's epoch that is compared with Post-LN's last (section 4.2)."""
TOKENISED, VALID_LOSS = "test_bleu_tokenised", "valid_loss"


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


def _negative(curve: dict[int, float]) -> dict[int, float]:
    return {at: -value for at, value in curve.items()}


def _epochs_to_bleu(post: Run, pre: Run) -> float:
    target = pre.curve(TOKENISED).get(EARLY_EPOCH)  # none: Pre-LN ended without a number before
    return reached(post.curve(TOKENISED), target) / EARLY_EPOCH if target is not None else 0.0


def _epochs_to_loss(post: Run, pre: Run) -> float:
    target = pre.curve(VALID_LOSS).get(EARLY_EPOCH)
    return reached(_negative(post.curve(VALID_LOSS)), -target) / EARLY_EPOCH if target is not None else 0.0


def _late_minus_early(post: Run, pre: Run) -> float:
    return post.curve(TOKENISED).get(LAST_EPOCH, 0.0) - pre.curve(TOKENISED).get(EARLY_EPOCH, 0.0)


def _updates_to_fall(post: Run, pre: Run) -> float:
    """Return the updates of Post-LN over those of Pre-LN to nine tenths of Post-LN's fall in training loss."""
    slow, fast = (
        {e["update"]: -float(e["loss"]) for e in run.events if e["kind"] == "train" and e["loss"] is not None}
        for run in (post, pre)
    )
    if not slow:
        return math.inf if post.diverged else math.nan  # without events nothing is known
    values = [*slow.values()]
    target = values[0] + PART_OF_FALL * (max(values) - values[0])
    return times(reached(slow, target), reached(fast, target))


def _updates_to_pretraining_loss(post: Run, pre: Run) -> float:
    slow, fast = (
        {row["update"]: -float(row["valid_loss"]) for row in run.record["epochs"] if row["valid_loss"] is not None}
        for run in (post, pre)
    )
    if not slow:
        return math.inf
    target = at(slow, PART_OF_RUN * max(slow))
    return times(reached(slow, target), reached(fast, target))


def at(curve: dict[int, float], place: float) -> float:
    """Return a curve's value, interpolated; before its first point, that of the first."""
    before = max((here for here in curve if here <= place), default=min(curve))
    after = min(here for here in curve if here >= max(place, before))
    share = (place - before) / (after - before) if after > before else 0.0
    return curve[before] + share * (curve[after] - curve[before])


def _at_equal_length(*runs: Run) -> list[float]:
    """Return each run's validation loss after the last epoch that all of them have; infinite where one has none."""
    curves = [run.curve(VALID_LOSS) if run.finite else {} for run in runs]
    lasts = [max(curve) for curve in curves if curve]
    return [curve.get(min(lasts), math.inf) if curve else math.inf for curve in curves]


def _loss_gap(one: Run, other: Run) -> float:
    first, second = _at_equal_length(one, other)
    return first - second


def _above_the_better(fixed: Run, one: Run, other: Run) -> float:
    loss, *others = _at_equal_length(fixed, one, other)
    return loss - min(others)


def _dominance(quantity: str, sign: int) -> Metric:
    """Return placement's effect under RAdam minus the optimizer's in Pre-LN; ``sign`` -1 where less is better."""
    name = "BLEU" if sign > 0 else "bits of loss"

    def contrast(post_radam: Run, pre_radam: Run, pre: Run) -> float:
        post, both, adam = (getattr(run, quantity) for run in (post_radam, pre_radam, pre))
        return float(sign * (both - post) - abs(both - adam))

    return Metric(
        f"{name} that placement makes under RAdam without warm-up minus what the optimizer makes in Pre-LN", contrast
    )


def _ramp_by_rate(*runs: Run) -> float:
    """Return what shortening the ramp costs at the high rate minus what it costs at the low one, bits of final loss."""
    none, short, whole, none_high, short_high, whole_high = (run.final_loss for run in runs)
    low, high = (none + short) / 2 - whole, (none_high + short_high) / 2 - whole_high
    return high - low


BLEU = Metric("BLEU of {}", lambda run: run.bleu, PERCENT)
LOSS = Metric("loss of {}", lambda run: run.loss)
FINAL_LOSS = Metric("final loss of {}", lambda run: run.final_loss)
FINAL_NLL = Metric("final NLL of {}", lambda run: run.final_nll)
ACCURACY = Metric("accuracy of {}", lambda run: 100 * run.accuracy, PERCENT)
EPOCHS_TO_BLEU = Metric(
    f"epochs of {{}} over those of {{}} to the latter's BLEU at epoch {EARLY_EPOCH}", _epochs_to_bleu, LOG
)
EPOCHS_TO_LOSS = Metric(
    f"epochs of {{}} over those of {{}} to the latter's loss at epoch {EARLY_EPOCH}", _epochs_to_loss, LOG
)
LATE_MINUS_EARLY = Metric(
    f"BLEU of {{}} at epoch {LAST_EPOCH} minus that of {{}} at epoch {EARLY_EPOCH}", _late_minus_early
)
UPDATES_TO_FALL = Metric(
    "updates of {} over those of {} to nine tenths of the former's fall in training loss", _updates_to_fall, LOG
)
UPDATES_TO_PRETRAINING_LOSS = Metric(
    f"updates of {{}} over those of {{}} to the former's validation loss after {PART_OF_RUN:.0%} of its run",
    _updates_to_pretraining_loss, LOG,
)  # fmt: skip
LOSS_GAP = Metric("loss of {} minus that of {}, after equally many epochs", _loss_gap)
ABOVE_THE_BETTER = Metric("loss of {} minus that of the better of {} and {}, after equally many epochs",
                          _above_the_better)  # fmt: skip
RAMP_BY_RATE = Metric(
    "bits of final loss that shortening Post-LN's ramp (to an eighth and to none) costs at the higher rate minus "
    "what it costs at the lower", _ramp_by_rate,
)  # fmt: skip
DOMINANCE_BLEU, DOMINANCE_LOSS = _dominance("bleu", 1), _dominance("loss", -1)
