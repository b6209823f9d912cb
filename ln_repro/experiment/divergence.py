"""When a run counts as lost: rules that look at the validation losses. Plain arithmetic, shared by engine and tests.

Numbers that are not finite end a run whatever the rule. A rule adds what can be told from finite numbers: a Post-LN
model without warm-up ends as a poor model, not as a NaN (paper section 3.2). A new rule is a function and its entry in
`RULES`.
"""

from collections.abc import Callable, Sequence

NOT_FINITE = "not_finite"
"""The kind of a divergence that needs no rule."""
MARGIN = 0.05
"""Bits: how far validations of a model that has come to rest may stray by chance."""
Validation = tuple[int, float]
"""The number of updates, and the loss without label smoothing in bits per target token."""


class Diverged(Exception):
    """The run is lost: a result, not an error. ``kind`` is `NOT_FINITE` or the name of the rule that says so."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


def stuck(validations: Sequence[Validation], entropy: float, ramp: int, updates: int) -> str | None:
    """Return why a run is stuck: it knows no more than the words' frequencies and is not getting on. None if it is not.

    The window is the last validation and those before it, back to the nearest that is at least ``updates`` earlier. The
    run is stuck if all of them are at or above the unigram entropy and the last is not below the first (both to
    `MARGIN`).

    Validation losses are taken because those of training tell something else: toy's Post-LN runs without warm-up end at
    5.4 bits in training, with dropout, and at up to 8.9 on held-out text, without. They are few but hardly noisy, the
    sentences being the same every time, so that two that are far enough apart tell a slow fall from none.

    Args:
        validations: of the run so far, in order.
        entropy: of the training targets' unigram distribution, in bits per token.
        ramp: updates of the warm-up, validations before whose end do not count.
        updates: that the window spans at least.
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
    """Say nothing."""


Rule = Callable[[Sequence[Validation], float, int, int], str | None]
RULES: dict[str, Rule] = {"stuck": stuck, "never": never}
