"""Verdicts on Theorem 1 and on its extension to all layers, from gradients of the simplified model."""

import math
from collections.abc import Iterator
from statistics import fmean
from typing import Any

from ln_repro.statistics import Interval, exponent_interval, layer_means, ratio_interval
from ln_repro.theory import lemmas
from ln_repro.theory.finding import Finding, Tally
from ln_repro.theory.unit import Measured, Measurement, Unit, grouped
from ln_repro.verdict import verdict

SEEDS = 10
FLAT: Interval = (-0.15, 0.15)
RATE: Interval = (-0.65, -0.35)
LEVEL: Interval = (0.9, 1.1)
LEVEL_RULE = (
    "; and the norm of the mean gradient over what Lemmas 1 to 3 predict for it, geometric mean over depths: "
    "interval inside [0.9, 1.1]"
)


def theorem_1_post(measured: Measured) -> Finding:
    """T1-post: the last layer's gradient does not depend on the depth."""
    tally = Tally()
    for label, by_seed in _by_width(measured, "postln"):
        values = _last_layer(by_seed)
        parts = [verdict(values["exponent"], FLAT), verdict(values["level"], LEVEL)]
        tally.add(label, values, values["exponent"], parts, len(by_seed))
    return tally.finding(
        "T1-post",
        "Theorem 1, Post-LN, simplified model: the gradient of the last layer's W2 does not depend on L",
        "O(d sqrt(ln d))",
        "exponent of L",
        "fitted exponent of L: interval inside [-0.15, 0.15]" + LEVEL_RULE,
        SEEDS,
    )


def theorem_1_pre(measured: Measured) -> Finding:
    """T1-pre: the last layer's gradient falls as the inverse square root of the depth."""
    tally = Tally()
    for label, by_seed in _by_width(measured, "preln"):
        values = _last_layer(by_seed)
        direction = verdict(values["exponent"], (-math.inf, FLAT[0]))
        parts = [direction, verdict(values["exponent"], RATE), verdict(values["level"], LEVEL)]
        tally.add(label, {**values, "direction": direction}, values["exponent"], parts, len(by_seed))
    return tally.finding(
        "T1-pre",
        "Theorem 1, Pre-LN, simplified model: the gradient of the last layer's W2 falls as L^-1/2",
        "O(d sqrt(ln d / L))",
        "exponent of L",
        "fitted exponent of L: interval inside [-0.65, -0.35]" + LEVEL_RULE,
        SEEDS,
    )


def extended_post(measured: Measured) -> Finding:
    """TH-11: in Post-LN, gradients shrink towards the input by the same factor in every layer.

    The factor is that of the layer's last norm alone: the Jacobian of the feed-forward branch beside it is left out.
    """
    tally = Tally()
    for (d, d_ff, layers), group in grouped(measured, "gradients", "d", "d_ff", "layers", norm="postln").items():
        predicted = math.sqrt(lemmas.post_square(d, d_ff))
        curves = [found["norm_of_mean"] for _, found in group]
        interval = ratio_interval([(curve[-1] / curve[0]) ** (1 / (layers - 1)) for curve in curves])
        direction = verdict(interval, (1, math.inf))
        rate = verdict(interval, (0.95 * predicted, 1.05 * predicted))
        values = {"predicted": predicted, "ratio": interval, "direction": direction, "rate": rate,
                  "by layer": layer_means(curves)}  # fmt: skip
        tally.add(f"d={d} d_ff={d_ff} L={layers}", values, interval, [direction, rate], len(group))
    return tally.finding(
        "TH-11",
        "Extended theory, Post-LN: the gradient of W2 shrinks by (2/3)^1/2 a layer towards the input",
        "(2/3)^((L-l)/2): 1.22 a layer",
        "ratio a layer",
        "geometric mean ratio of successive layers, at every L: interval above 1 (direction) and within 5 % of the "
        "predicted ratio (rate)",
        SEEDS,
    )


def extended_pre(measured: Measured) -> Finding:
    """T1-layers: in Pre-LN, gradients do not depend on the layer where it is high."""
    tally = Tally()
    for (d, d_ff, layers), group in grouped(measured, "gradients", "d", "d_ff", "layers", norm="preln").items():
        curves = [found["norm_of_mean"] for _, found in group]
        interval = exponent_interval([_upper_half(curve) for curve in curves])
        values = {"exponent of l": interval, "by layer": layer_means(curves),
                  "first over last": ratio_interval([curve[0] / curve[-1] for curve in curves])}  # fmt: skip
        tally.add(f"d={d} d_ff={d_ff} L={layers}", values, interval, [verdict(interval, FLAT)], len(group))
    return tally.finding(
        "T1-layers",
        "Extended theory, Pre-LN: the gradient of W2 does not depend on the layer l, for large l",
        "independent of l",
        "exponent of l",
        "fitted exponent of l over the upper half of the layers: interval inside [-0.15, 0.15], at every L",
        SEEDS,
    )


ByDepth = dict[int, tuple[Unit, Measurement]]


def _by_width(measured: Measured, norm: str) -> Iterator[tuple[str, list[ByDepth]]]:
    """Yield, for every d and d_ff measured in at least two depths, the measurements by depth, one dict a seed."""
    for (d, d_ff), group in grouped(measured, "gradients", "d", "d_ff", norm=norm).items():
        by_seed: dict[int, ByDepth] = {}
        for unit, found in group:
            by_seed.setdefault(unit.seed, {})[unit["layers"]] = unit, found
        if min(map(len, by_seed.values())) > 1:
            yield f"d={d} d_ff={d_ff}", list(by_seed.values())


def _last_layer(by_seed: list[ByDepth]) -> dict[str, Any]:
    """Return the mean norm by depth, and the intervals of its exponent and of its level over the predicted one.

    Beside them, for the first layer and for the other order of mean and norm, the exponent alone.
    """
    curves = [_curve(by_depth, "norm_of_mean", -1) for by_depth in by_seed]
    levels = [math.exp(fmean(math.log(_level(*seen)) for seen in by_depth.values())) for by_depth in by_seed]
    return {
        "last layer": {str(depth): fmean(curve[depth] for curve in curves) for depth in sorted(curves[0])},
        "exponent": exponent_interval(curves),
        "level": ratio_interval(levels),
        "exponent, first layer": exponent_interval([_curve(by_depth, "norm_of_mean", 0) for by_depth in by_seed]),
        "exponent, mean of norms": exponent_interval([_curve(by_depth, "mean_of_norms", -1) for by_depth in by_seed]),
    }


def _curve(by_depth: ByDepth, statistic: str, layer: int) -> dict[int, float]:
    return {depth: found[statistic][layer] for depth, (_, found) in by_depth.items()}


def _level(unit: Unit, found: Measurement) -> float:
    """Return the last layer's norm over the predicted."""
    targets = unit["batches"] * unit["sequences"] * unit["positions"]
    return found["norm_of_mean"][-1] / lemmas.last_gradient(unit["d"], unit["d_ff"], found["square"], targets)


def _upper_half(curve: list[float]) -> dict[int, float]:
    """Return the upper half of the layers, by number from 1."""
    return {layer: norm for layer, norm in enumerate(curve, 1) if 2 * layer >= len(curve)}
