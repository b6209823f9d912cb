"""The rule that decides from the validation losses whether a run has diverged.

A loss or gradient that is not finite always ends a run. The rule detects divergence with finite numbers: Post-LN
without warm-up ends as a poor model, not with NaN (paper section 3.2).
"""

from collections.abc import Sequence

NOT_FINITE = "not_finite"  # the kind of divergence that needs no rule; the other one is `stuck`
MARGIN = 0.05  # tolerance, in bits, for random differences between validations of a model that no longer improves
Validation = tuple[int, float]  # number of updates, and loss without label smoothing in bits per target token


class Diverged(Exception):
    """A run has diverged, which is a result and not an error. ``kind`` is `NOT_FINITE` or ``stuck``."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


def stuck(validations: Sequence[Validation], entropy: float, ramp: int, updates: int) -> str | None:
    """Return why a run is stuck, or None if it is not.

    A run is stuck if it is no better than the unigram distribution and does not improve. The window reaches from the
    last validation back to the nearest one that is at least ``updates`` earlier. All of its losses must be at or above
    the unigram entropy, and the last must not be below the first (both within `MARGIN`).

    Training losses are not suitable: toy's Post-LN runs without warm-up end at 5.4 bits in training, with dropout, and
    at up to 8.9 bits on held-out text. Validations are few but have little noise, since the sentences are the same.

    Args:
        validations: the validations so far, in order.
        entropy: entropy of the unigram distribution of the training targets, in bits per token.
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
