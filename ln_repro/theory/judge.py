"""Judge measurements by the table of checks."""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from ln_repro.claims.intervals import Interval, hull, layer_means, mean_interval, ratio_interval
from ln_repro.claims.verdict import CONTRADICTED, INCONCLUSIVE, REPRODUCED, all_of, near, verdict
from ln_repro.theory import quantities
from ln_repro.theory.checks import CHECKS, CLAIMS, DEPTHS, Check
from ln_repro.theory.unit import Measured, grouped

WITHOUT = "reported"
"""The verdict of checks that are only reported."""


@dataclass(frozen=True)
class Part:
    """The result of a check: the worst verdict over its settings.

    Attributes:
        interval: covers the intervals of all settings.
        seeds: of the setting with fewest.
        settings: the intervals by setting.
        why: why an inconclusive check is undecided, and what would decide it.
    """

    part: str
    quantity: str
    interval: Interval
    rule: str
    verdict: str
    seeds: int
    settings: dict[str, Interval]
    why: str | None


def judge(measured: Measured, ids: Collection[str]) -> list[dict[str, Any]]:
    """Return a finding for each of the claims ``ids``, for JSON: numbers that are not finite are None.

    Keys: ``id``, ``statement``, ``paper`` (its value), ``values`` (by depth or layer if the claim is about a curve,
    else the intervals by setting), ``quantity`` and ``interval`` (of the claim's first check), ``rule``, ``verdict``
    (of all parts together), ``seeds`` (of the judged part with fewest), ``parts`` (`Part`), ``note`` (why the finding
    is inconclusive and what only ``--full`` measures, or None), ``place``.
    """
    return [_plain(finding(id, measured)) for id in CLAIMS if id in ids]


def finding(id: str, measured: Measured) -> dict[str, Any]:
    """Return the finding of one claim."""
    checks = [check for check in CHECKS if check.claim == id]
    parts = [part for check in checks if (part := examine(check, measured))]
    judged = [part for part in parts if part.verdict != WITHOUT]
    seeds = min((part.seeds for part in judged), default=0)
    found = all_of(part.verdict for part in judged)
    missing = list(dict.fromkeys(check.part for check in checks if not any(p.part == check.part for p in parts)))
    values: dict[str, Any] = {f"{part.part}: {part.quantity}: {part.rule}": part.settings for part in parts}
    notes = [f"{part.part}: {part.why}" for part in judged if part.why] if found == INCONCLUSIVE else []
    notes += [f"not measured: {', '.join(missing)} (--full)"] if missing else []
    return {
        "id": id,
        "statement": CLAIMS[id].statement,
        "paper": CLAIMS[id].paper,
        "values": CURVES[id](measured) if id in CURVES else values,
        "quantity": checks[0].quantity,
        "interval": parts[0].interval if parts else (-math.inf, math.inf),
        "rule": "; ".join(dict.fromkeys(f"{part.part}: {part.quantity}: {part.rule}" for part in parts)),
        "verdict": found,
        "seeds": seeds,
        "parts": [vars(part) for part in parts],
        "note": "; ".join(notes) or None,
        "place": CLAIMS[id].place,
    }


def examine(check: Check, measured: Measured) -> Part | None:
    """Return the result of a check; None if nothing was measured for it."""
    intervals, verdicts, seeds, whys = {}, [], [], []
    for setting, made in grouped(measured, check.what, check.by, check.where).items():
        found = check.values(made)
        label = " ".join(f"{name}={value}" for name, value in zip(check.by, setting, strict=True))
        intervals[label] = hull([interval(check, values) for values in found])
        verdicts += [decide(check, values) for values in found]
        seeds += [len(values) for values in found]
        whys += [why(check, values) for values in found]
    if not verdicts:
        return None
    said = WITHOUT if check.how == WITHOUT else all_of(verdicts)
    reason = max(whys)[1] if said == INCONCLUSIVE else None
    return Part(
        check.part, check.quantity, hull(list(intervals.values())), check.rule, said, min(seeds), intervals, reason
    )


def interval(check: Check, values: Sequence[float]) -> Interval:
    """Return the interval that a check judges."""
    if check.how == "every":
        return min(values), max(values)
    return ratio_interval(values) if check.how in ("ratio", "contains") else mean_interval(values)


def decide(check: Check, values: Sequence[float]) -> str:
    """Return the verdict on one quantity's values over seeds."""
    if len(values) < check.seeds:
        return INCONCLUSIVE
    if check.how == "near":
        return near(values, check.region)
    low, high = interval(check, values)
    if check.how == "contains":
        return REPRODUCED if low <= check.region[0] <= high else CONTRADICTED
    found = verdict((low, high), check.region)
    return CONTRADICTED if check.how == "every" and found == INCONCLUSIVE else found


def why(check: Check, values: Sequence[float]) -> tuple[float, str]:
    """Return the number of seeds that a check needs, and the reason why it is inconclusive."""
    if len(values) < check.seeds:
        return check.seeds, f"{len(values)} seeds are too few: --seeds {check.seeds} decides it"
    low, high = interval(check, values)
    crossed = [end for end in check.region if low < end < high]
    if not crossed:
        return 0, ""
    scale: Callable[[float], float] = math.log if check.how == "ratio" else float
    half, centre = (scale(high) - scale(low)) / 2, (scale(high) + scale(low)) / 2
    distance = min(abs(centre - scale(end)) for end in crossed)
    needed = math.ceil(len(values) * (half / distance) ** 2) if distance else math.inf
    said = f"the interval [{low:.3g}, {high:.3g}] of {len(values)} seeds contains the bound {crossed[0]:.3g}"
    return needed, f"{said}; about {needed} seeds decide it if the mean stays (--full, --seeds N)"


def last_layer(measured: Measured, norm: str, init: str = "xavier", tied: bool = False) -> list[dict[int, float]]:
    """Return the W2 gradient of a Transformer's last decoder layer by depth, one curve per seed."""
    groups = grouped(measured, DEPTHS, (), {"norm": norm, "init": init, "tied": tied})
    return quantities.by_depth(groups.get((), []), quantities.gradients("decoder.w2"))


def by_layer(measured: Measured, norm: str, weight: str = "decoder.w2") -> list[quantities.Curve]:
    """Return the gradient of one kind of weight by layer of the 6-6 model, one curve per seed."""
    groups = grouped(measured, ("real_gradients",), (), {"norm": norm, "init": "xavier", "tied": False})
    return [found["norm_of_mean"][weight] for _, found in groups.get((), [])]


def depth_means(curves: Sequence[dict[int, float]]) -> dict[str, float]:
    """Return the mean over seeds by depth."""
    return {str(depth): fmean(curve[depth] for curve in curves) for depth in sorted(curves[0] if curves else {})}


CURVES: dict[str, Callable[[Measured], dict[str, float]]] = {
    "TH-6": lambda measured: depth_means(last_layer(measured, "postln")),
    "TH-7": lambda measured: depth_means(last_layer(measured, "preln")),
    "TH-8": lambda measured: layer_means(by_layer(measured, "postln")),
    "TH-9": lambda measured: layer_means(by_layer(measured, "preln")),
}
"""The values of claims about a curve: the gradient of W2 by depth or by layer."""


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
