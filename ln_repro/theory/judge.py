"""Judge measurements by the table of checks; gradients at initialisation as curves over layers and depths."""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from ln_repro.claims import intervals
from ln_repro.claims.intervals import CONTRADICTED, INCONCLUSIVE, REPRODUCED, Interval, mean_interval
from ln_repro.claims.metrics import more_seeds
from ln_repro.claims.rules.th import STATEMENTS
from ln_repro.records.events import json_ready
from ln_repro.system.files import Json
from ln_repro.theory.checks import CHECKS, DEPTHS, Check
from ln_repro.theory.measurements import NORMS
from ln_repro.theory.unit import Measured, grouped, select

REPORTED = "reported"  # in place of a verdict, for checks that are only reported
XAVIER = {"init": "xavier", "tied": False}
Series = dict[str, list[float]]
"""The mean and both ends of its interval over seeds, by layer or depth; the keys are text, for JSON."""


@dataclass(frozen=True)
class CheckResult:
    """The result of a check: the worst verdict over its settings."""

    part: str  # name of the model
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
    results = [result for check in checks if (result := examine(check, measured))]
    judged = [result for result in results if result.verdict != REPORTED]
    verdict = intervals.all_of(result.verdict for result in judged)
    measured_parts = {result.part for result in results}
    missing = dict.fromkeys(check.part for check in checks if check.part not in measured_parts)
    settings = {f"{result.part}: {result.quantity}: {result.rule}": result.settings for result in results}
    notes = [f"{result.part}: {result.why}" for result in judged if result.why and verdict == INCONCLUSIVE]
    notes += [f"not measured: {', '.join(missing)} (--full)"] if missing else []
    return {
        "id": id,
        **STATEMENTS[id]._asdict(),
        "values": {place: mean for place, (mean, *_) in CURVES[id](measured).items()} if id in CURVES else settings,
        "quantity": checks[0].quantity,
        "interval": results[0].interval if results else (-math.inf, math.inf),
        "rule": "; ".join(settings),
        "verdict": verdict,
        "seeds": min((result.seeds for result in judged), default=0),
        "parts": [vars(result) for result in results],
        "note": "; ".join(notes) or None,
    }


def examine(check: Check, measured: Measured) -> CheckResult | None:
    """Return the result of a check; None if nothing was measured for it."""
    settings, samples = dict[str, Interval](), list[list[float]]()
    groups = grouped(select(measured, check.what, check.where), lambda unit: tuple(unit[name] for name in check.by))
    for setting, group in groups.items():
        curves = [check.values(of_seed) for of_seed in grouped(group, lambda unit: unit.seed).values()]
        over_seeds = [list(values) for values in zip(*curves, strict=True)]  # for each number of the quantity
        label = " ".join(f"{name}={value}" for name, value in zip(check.by, setting, strict=True))
        settings[label] = hull([interval(check, values) for values in over_seeds])
        samples += over_seeds
    if not samples:
        return None
    verdicts = [decide(check, values) for values in samples]
    worst = REPORTED if check.how == REPORTED else intervals.all_of(verdict for verdict, _ in verdicts)
    why = next((why for _, why in verdicts if why), None) if worst == INCONCLUSIVE else None
    around, seeds = hull([*settings.values()]), min(map(len, samples))
    return CheckResult(check.part, check.quantity, around, check.rule, worst, seeds, settings, why)


def hull(spans: Sequence[Interval]) -> Interval:
    """Return the smallest interval that contains all of the given ones."""
    return min(low for low, _ in spans), max(high for _, high in spans)


def interval(check: Check, values: Sequence[float]) -> Interval:
    """Return the interval to which a check is applied."""
    return (min(values), max(values)) if check.how == "every" else check.scale.interval(values)


def decide(check: Check, values: Sequence[float]) -> tuple[str, str | None]:
    """Return the verdict on the values of one quantity over seeds; if inconclusive, also why and what would decide."""
    if len(values) < check.seeds:
        return INCONCLUSIVE, f"{len(values)} seeds are too few; use --seeds {check.seeds}"
    if any(map(math.isnan, values)):
        return INCONCLUSIVE, "a measured value is not a number"
    if check.how == "near":
        return intervals.near(values, check.region), None
    low, high = interval(check, values)
    if check.how == "contains":
        return REPRODUCED if low <= check.region[0] <= high else CONTRADICTED, None
    result = intervals.verdict((low, high), check.region)
    if result != INCONCLUSIVE or check.how == "every":
        return REPRODUCED if result == REPRODUCED else CONTRADICTED, None
    needed = more_seeds(values, [check.region], check.scale) or "more seeds"
    why = f"the interval [{low:.3g}, {high:.3g}] contains a bound; {needed} should decide it (--full, --seeds N)"
    return INCONCLUSIVE, why


def by_depth(measured: Measured, norm: str) -> Series:
    """Return the W2 gradient of a Transformer's last decoder layer by depth."""
    selected = select(measured, DEPTHS, {"norm": norm, **XAVIER})
    return series((unit["layers"], result["norm_of_mean"]["decoder.w2"][-1]) for unit, result in selected)


def by_layer(measured: Measured, norm: str, weight: str = "decoder.w2", what: str = "real_gradients") -> Series:
    """Return the gradient of one kind of weight by layer of the 6-6 model."""
    selected = select(measured, (what,), {"norm": norm, **XAVIER})
    return series(point for _, result in selected for point in enumerate(result["norm_of_mean"][weight], 1))


def series(points: Iterable[tuple[int, float]]) -> Series:
    """Return the mean and the interval over seeds at every layer or depth."""
    values: dict[int, list[float]] = {}
    for place, value in points:
        values.setdefault(place, []).append(value)
    return {str(place): [fmean(of_place), *mean_interval(of_place)] for place, of_place in sorted(values.items())}


CURVES: dict[str, Callable[[Measured], Series]] = {
    "TH-6": partial(by_depth, norm="postln"),
    "TH-7": partial(by_depth, norm="preln"),
    "TH-8": partial(by_layer, norm="postln"),
    "TH-9": partial(by_layer, norm="preln"),
}
"""The curves of claims about a curve."""


def figures(measured: Measured) -> Json:
    """Return the panels of figure 3, if all were measured for both norms, by matrix and for the last W2 by depth.

    A panel maps the label of a series, the norm placement and what else tells it apart, to its points.
    """
    last = {norm: by_depth(measured, norm) for norm in NORMS}
    if not all(by_layer(measured, norm) and len(last[norm]) > 1 for norm in NORMS):
        return {}
    panels: dict[str, dict[str, Series]] = {}
    for matrix in ("w1", "w2"):
        weight = f"decoder.{matrix}"
        panels[matrix] = {norm: by_layer(measured, norm, weight) for norm in NORMS}
        if uncrossed := by_layer(measured, "postln", weight, "real_uncrossed_gradients"):
            panels[matrix]["postln without cross-attention"] = uncrossed
    return {"initialisation": {**panels, "last": last}}
