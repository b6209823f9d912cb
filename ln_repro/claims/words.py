"""Format arms, regions and numbers for rules and verdicts."""

import math
from collections.abc import Sequence
from statistics import fmean

from ln_repro.claims.intervals import LINEAR, Scale, interval

SCHEMES = {"postln": "Post-LN", "preln": "Pre-LN", "deepnorm": "DeepNorm", "rezero": "ReZero", "admin": "Admin"}
PARTS = {
    "warm": "with warm-up", "nowarm": "without warm-up", "sgd": "under SGD", "radam": "under RAdam",
    "literal": "(T = 1)", "anchored": "(anchored)", "short": "(an eighth of the ramp)", "fixed": "(small fixed rate)",
    "linear": "(linear decay)", "step": "(step)", "high": "at the higher rate", "low": "at the lower rate",
    "deep": "(deep)", "deeper": "(deeper)", "closed": "(closed form)",
}  # fmt: skip


def arm_words(arm: str) -> str:
    """Return an arm's name in words: `postln_nowarm_literal` is "Post-LN without warm-up (T = 1)"."""
    scheme, *parts = arm.split("_")
    return " ".join([SCHEMES.get(scheme, scheme), *(PARTS.get(part, part) for part in parts)])


def region_words(low: float, high: float) -> str:
    """Return a region as text."""
    if low == 0 and math.isinf(high):
        return "above 0"
    if math.isinf(low):
        return f"at most {high:.3g}"
    return f"at least {low:.3g}" if math.isinf(high) else f"in [{low:.3g}, {high:.3g}]"


def spoken(values: Sequence[float], scale: Scale = LINEAR, mixed: bool = False) -> str:
    """Return a mean with its 95 % interval, as text.

    Least and greatest value replace the interval where it would be meaningless: if some seeds train and some do not
    (``mixed``), if a value is infinite, or if the interval exceeds the possible values.
    """
    mean = scale.mean(values) if scale.has(values) else fmean(values)
    low, high = interval(values, scale)
    if len(values) < 2 or math.isnan(mean):
        return f"{mean:.3g}"
    if mixed or not scale.has(values) or low < scale.possible[0] or high > scale.possible[1]:
        return f"{mean:.3g} ({min(values):.3g} to {max(values):.3g})"
    return f"{mean:.3g} [{low:.3g}, {high:.3g}]"
