"""Rules by which a run counts as diverged, given its validation losses.

Numbers that are not finite end a run with any rule. A rule finds divergence in finite numbers: a Post-LN model without
warm-up ends as a poor model, not with a NaN (paper section 3.2). A new rule is a function and its entry in `RULES`.
"""

from collections.abc import Callable, Sequence

NOT_FINITE = "not_finite"
"""The kind of divergence without a rule."""
MARGIN = 0.05
"""Tolerance, in bits, for random differences between validations of a model that no longer improves."""
Validation = tuple[int, float]
"""The number of updates, and the loss without label smoothing in bits per target token."""


class Diverged(Exception):
    """A run has diverged, a result and not an error. ``kind`` is `NOT_FINITE` or the name of a rule."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


def stuck(validations: Sequence[Validation], entropy: float, ramp: int, updates: int) -> str | None:
    """Return why a run is stuck, no better than the unigram distribution and without improvement, or None.

    The window is the last validation and those before it, back to the nearest that is at least ``updates`` earlier. The
    run is stuck if all of them are at or above the unigram entropy and the last is not below the first (both to
    `MARGIN`).

    Training losses would not do: toy's Post-LN runs without warm-up end at 5.4 bits in training, with dropout, and at
    up to 8.9 on held-out text, without. Validations are few, but have little noise, because the sentences are the same.

    Args:
        validations: of the run so far, in order.
        entropy: of the unigram distribution of the training targets, in bits per token.
        ramp: updates of the warm-up; validations before its end do not count.
        updates: minimum length of the window.
    """
    counted = [(update, loss) for update, loss in validations if update > ramp]
    starts = [place for place, (update, _) in enumerate(counted) if update <= counted[-1][0] - updates]
    if not starts:
        return None
    window = counted[starts[-1] :]
    (begin, first), (end, last) = window[0], window[-1]
    if min(loss for _, loss in window) < entropy - MARGIN or last < first - MARGIN:
        return None
    return (
        f"the validation loss has stayed above the unigram entropy of {entropy:.2f} bits for {end - begin} updates "
        f"after the ramp ({last:.2f} bits), and does not fall"
    )


def never(validations: Sequence[Validation], entropy: float, ramp: int, updates: int) -> None:
    """Return None: no run is stuck."""


Rule = Callable[[Sequence[Validation], float, int, int], str | None]
RULES: dict[str, Rule] = {"stuck": stuck, "never": never}
