"""Judge measurements by the table of checks."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from ln_repro.claims.intervals import (
    CONTRADICTED,
    INCONCLUSIVE,
    REPRODUCED,
    Interval,
    all_of,
    mean_interval,
    near,
    ratio_interval,
    verdict,
)
from ln_repro.claims.rules.th import STATEMENTS
from ln_repro.records.events import json_ready
from ln_repro.system.files import Json
from ln_repro.theory import quantities
from ln_repro.theory.checks import CHECKS, DEPTHS, Check
from ln_repro.theory.unit import Measured, grouped, select

REPORTED = "reported"
"""In place of a verdict, for checks that are only reported."""
Series = dict[str, list[float]]
"""The mean and both ends of its interval, by layer or depth; the keys are text, for JSON."""


@dataclass(frozen=True)
class Part:
    """The result of a check: the worst verdict over its settings."""

    part: str
    quantity: str
    interval: Interval  # the smallest around those of all settings
    rule: str
    verdict: str
    seeds: int  # the smallest number of any setting
    settings: dict[str, Interval]  # by setting
    why: str | None  # why the check is inconclusive, and what would decide it


def judge(measured: Measured, ids: Collection[str]) -> list[Json]:
    """Return a finding for each of the claims ``ids``, in a form for JSON: numbers that are not finite are None."""
    return [json_ready(finding(id, measured)) for id in STATEMENTS if id in ids]


def finding(id: str, measured: Measured) -> Json:
    """Return the finding of one claim; quantity and interval are those of its first check, the rule that of all.

    ``values`` are by depth or layer if the claim is about a curve, otherwise the intervals by setting. ``note`` says
    why the finding is inconclusive, and what only ``--full`` measures.
    """
    checks = [check for check in CHECKS if check.claim == id]
    parts = [part for check in checks if (part := examine(check, measured))]
    judged = [part for part in parts if part.verdict != REPORTED]
    result = all_of(part.verdict for part in judged)
    missing = list(dict.fromkeys(check.part for check in checks if not any(p.part == check.part for p in parts)))
    settings = {f"{part.part}: {part.quantity}: {part.rule}": part.settings for part in parts}
    means = {place: mean for place, (mean, *_) in series(CURVES[id](measured)).items()} if id in CURVES else None
    notes = [f"{part.part}: {part.why}" for part in judged if part.why] if result == INCONCLUSIVE else []
    notes += [f"not measured: {', '.join(missing)} (--full)"] if missing else []
    return {
        "id": id,
        "statement": STATEMENTS[id].statement,
        "paper": STATEMENTS[id].paper,
        "values": settings if means is None else means,
        "quantity": checks[0].quantity,
        "interval": parts[0].interval if parts else (-math.inf, math.inf),
        "rule": "; ".join(settings),
        "verdict": result,
        "seeds": min((part.seeds for part in judged), default=0),
        "parts": [vars(part) for part in parts],
        "note": "; ".join(notes) or None,
        "place": STATEMENTS[id].place,
    }


def examine(check: Check, measured: Measured) -> Part | None:
    """Return the result of a check; None if nothing was measured for it."""
    settings, every = {}, []
    for setting, group in grouped(select(measured, check.what, check.where), check.by).items():
        quantities = check.values(group)
        label = " ".join(f"{name}={value}" for name, value in zip(check.by, setting, strict=True))
        settings[label] = hull([interval(check, values) for values in quantities])
        every += quantities
    if not every:
        return None
    result = REPORTED if check.how == REPORTED else all_of(decide(check, values) for values in every)
    _, reason = max(why(check, values) for values in every) if result == INCONCLUSIVE else (0, None)
    around, seeds = hull([*settings.values()]), min(map(len, every))
    return Part(check.part, check.quantity, around, check.rule, result, seeds, settings, reason)


def hull(intervals: Sequence[Interval]) -> Interval:
    """Return the smallest interval that contains all of the given ones."""
    return min(low for low, _ in intervals), max(high for _, high in intervals)


def interval(check: Check, values: Sequence[float]) -> Interval:
    """Return the interval to which a check is applied."""
    if check.how == "every":
        return min(values), max(values)
    return ratio_interval(values) if check.how in ("ratio", "contains") else mean_interval(values)


def decide(check: Check, values: Sequence[float]) -> str:
    """Return the verdict on the values of one quantity over seeds."""
    if len(values) < check.seeds:
        return INCONCLUSIVE
    if check.how == "near":
        return near(values, check.region)
    low, high = interval(check, values)
    if check.how == "contains":
        return REPRODUCED if low <= check.region[0] <= high else CONTRADICTED
    result = verdict((low, high), check.region)
    return CONTRADICTED if check.how == "every" and result == INCONCLUSIVE else result


def why(check: Check, values: Sequence[float]) -> tuple[float, str]:
    """Return the number of seeds that a check needs, and the reason why it is inconclusive."""
    if len(values) < check.seeds:
        return check.seeds, f"{len(values)} seeds are too few; use --seeds {check.seeds}"
    low, high = interval(check, values)
    crossed = [end for end in check.region if low < end < high]
    if not crossed:
        return 0, ""
    scale: Callable[[float], float] = math.log if check.how == "ratio" else float
    half, centre = (scale(high) - scale(low)) / 2, (scale(high) + scale(low)) / 2
    distance = min(abs(centre - scale(end)) for end in crossed)
    needed = math.ceil(len(values) * (half / distance) ** 2) if distance else math.inf
    reason = f"the interval [{low:.3g}, {high:.3g}] of {len(values)} seeds contains the bound {crossed[0]:.3g}"
    return needed, f"{reason}; about {needed} seeds should decide it if the mean does not change (--full, --seeds N)"


def last_layer(measured: Measured, norm: str) -> list[dict[int, float]]:
    """Return the W2 gradient of a Transformer's last decoder layer by depth, one curve per seed."""
    selected = select(measured, DEPTHS, {"norm": norm, "init": "xavier", "tied": False})
    return quantities.by_depth(selected, quantities.gradients("decoder.w2"))


def by_layer(
    measured: Measured, norm: str, weight: str = "decoder.w2", what: str = "real_gradients"
) -> list[dict[int, float]]:
    """Return the gradient of one kind of weight by layer of the 6-6 model, one curve per seed."""
    selected = select(measured, (what,), {"norm": norm, "init": "xavier", "tied": False})
    return [quantities.numbered(measurement["norm_of_mean"][weight]) for _, measurement in selected]


CURVES: dict[str, Callable[[Measured], list[dict[int, float]]]] = {
    "TH-6": partial(last_layer, norm="postln"),
    "TH-7": partial(last_layer, norm="preln"),
    "TH-8": partial(by_layer, norm="postln"),
    "TH-9": partial(by_layer, norm="preln"),
}
"""The curves of claims about a curve: the gradient of W2 by depth or by layer."""


def series(curves: Iterable[Mapping[int, float]]) -> Series:
    """Return the mean and the interval over curves at every layer or depth."""
    values: dict[int, list[float]] = {}
    for curve in curves:
        for place, value in curve.items():
            values.setdefault(place, []).append(value)
    return {str(place): [fmean(of_place), *mean_interval(of_place)] for place, of_place in sorted(values.items())}
