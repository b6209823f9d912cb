"""When a run counts as lost: rules that look at the loss of every update. Plain arithmetic, shared by engine and tests.

Numbers that are not finite end a run whatever the rule. A rule adds what can be told from finite numbers: a Post-LN
model without warm-up ends as a poor model, not as a NaN (paper section 3.2). A new rule is a class and its entry in
`RULES`.
"""

from collections import deque
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Protocol

NOT_FINITE = "not_finite"
"""The kind of a divergence that needs no rule."""
MARGIN = 0.05
"""Bits: how far the mean of some hundred batches may stray by chance."""


class Diverged(Exception):
    """The run is lost: a result, not an error. ``kind`` is `NOT_FINITE` or the name of the rule that says so."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


class Rule(Protocol):
    """Looks at every update in turn."""

    def look(self, update: int, nll_loss: float) -> str | None:
        """Return why the run is lost, or None; ``nll_loss`` in bits per target token of this update."""

    def state(self) -> list[float]:
        """Return what a resumed run needs to go on as if nothing had happened."""

    def resume(self, state: Sequence[float]) -> None:
        """Take up a `state`."""


class Never:
    """No rule."""

    def __init__(self, entropy: float, ramp: int, updates: int) -> None:
        pass

    def look(self, update: int, nll_loss: float) -> None:
        """Say nothing."""

    def state(self) -> list[float]:
        """Return nothing."""
        return []

    def resume(self, state: Sequence[float]) -> None:
        """Need nothing."""


class Stuck:
    """Knows no more than the words' frequencies, and is not getting on.

    For ``updates`` updates after the ramp the loss stays at or above the unigram entropy (the mean of every quarter of
    them does, to `MARGIN`), and the last quarter is no more than `MARGIN` below the first: a slow starter that still
    falls is not stuck.

    Args:
        entropy: of the training targets' unigram distribution, in bits per token.
        ramp: updates of the warm-up, which are not looked at.
        updates: how many of them the judgement takes.
    """

    def __init__(self, entropy: float, ramp: int, updates: int) -> None:
        self.entropy = entropy
        self.ramp = ramp
        self.losses: deque[float] = deque(maxlen=updates)

    def look(self, update: int, nll_loss: float) -> str | None:
        """Return why the run is stuck, or None."""
        if update <= self.ramp:
            return None
        self.losses.append(nll_loss)
        if len(self.losses) < (self.losses.maxlen or 0):
            return None
        quarters = self._quarters()
        last = quarters[-1]
        if min(quarters) < self.entropy - MARGIN or quarters[0] - last > MARGIN:
            return None
        return (
            f"the loss has stayed above the unigram entropy of {self.entropy:.2f} bits for {len(self.losses)} updates "
            f"after the ramp ({last:.2f} bits), and does not fall"
        )

    def _quarters(self) -> list[float]:
        """Return the mean of each quarter."""
        losses, size = list(self.losses), -(-len(self.losses) // 4)
        return [fmean(losses[start : start + size]) for start in range(0, len(losses), size)]

    def state(self) -> list[float]:
        """Return the losses that count so far."""
        return list(self.losses)

    def resume(self, state: Sequence[float]) -> None:
        """Take up the losses of an earlier session."""
        self.losses.extend(state)


RULES: dict[str, Callable[[float, int, int], Rule]] = {"stuck": Stuck, "never": Never}
