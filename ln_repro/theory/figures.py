"""The data of the theory's figures: means and intervals over seeds, by layer or by depth.

A panel maps the label of a series (norm placement and, if there are two, stack) to its points.
"""

from collections.abc import Iterable, Sequence
from itertools import product
from statistics import fmean
from typing import Any

from ln_repro.claims.intervals import Interval, mean_interval
from ln_repro.theory import judge, lemmas
from ln_repro.theory.plan import NORMS
from ln_repro.theory.quantities import ATTENTIONS as ADDING
from ln_repro.theory.quantities import by_depth as depths_of
from ln_repro.theory.quantities import gradients
from ln_repro.theory.unit import Measured, grouped

Series = dict[str, list[float]]
"""The mean and both ends of its interval, by layer or depth."""
Panels = dict[str, dict[str, Series]]
PANELS = {"a": "w1", "b": "w2"}
STACKS = ("decoder", "encoder")
ATTENTIONS = ("encoder.self", "decoder.self", "decoder.cross")
PROJECTIONS = ("q", "k", "v", "out")
POSITIONS = 32
"""Sequence length of the simplified model in the figures."""


def figures(measured: Measured) -> dict[str, Any]:
    """Return the panels of every figure for which there are measurements, by name of the figure."""
    available = {unit.what for unit, _ in measured}
    panels: dict[str, Any] = {}
    if {"real_gradients", "real_last_gradient"} <= available:
        panels["figure_3"] = figure_3(measured)
    if "real_gradients" in available:
        panels["attention_gradients"] = attention_gradients(measured)
    if {"hidden_norms", "real_hidden_states"} <= available:
        panels["hidden_states"] = hidden_states(measured)
        panels["shares"] = shares(measured)
    if "gradients" in available:
        panels["simplified_gradients"] = simplified_panels(measured)
    return panels


def simplified_panels(measured: Measured) -> Panels:
    """Return the simplified model's gradients of W2: of the last layer by depth, and by layer for each depth."""
    panels: Panels = {}
    for norm in NORMS:
        sizes = grouped(measured, ("gradients",), ("d", "d_ff"), {"norm": norm})
        panels[f"last {norm}"] = {
            f"{norm} d={d} d_ff={d_ff}": by_depth(depths_of(group, gradients())) for (d, d_ff), group in sizes.items()
        }
        widest = max(d for d, d_ff in sizes if d == d_ff)
        panels[f"layers {norm}"] = {
            f"{norm} L={depth}": by_layer([gradients()(*one) for one in group])
            for (depth,), group in grouped(sizes[widest, widest], ("gradients",), ("layers",)).items()
        }
    return panels


def shares(measured: Measured) -> dict[str, Series]:
    """Return the share of positions whose norm^2 is above 1.1 times its mean, by layer of the 6-6 Transformer."""
    return {
        f"{norm} {stack}": by_layer(curves)
        for norm in NORMS
        for (_, _, stack), curves in hidden(measured, norm, "above_squared").items()
    }


def hidden(measured: Measured, norm: str, name: str) -> dict[tuple[int, int, str], list[Any]]:
    """Return one measurement of the hidden states for every seed, by d, d_ff and stack."""
    groups = grouped(measured, ("real_hidden_states",), ("width", "ffn"), {"norm": norm, "init": "xavier"})
    return {
        (width, ffn, stack): [measurement[stack][name] for _, measurement in group]
        for (width, ffn), group in groups.items()
        for stack in reversed(STACKS)
    }


def figure_3(measured: Measured) -> Panels:
    """Return the panels of figure 3: (a) W1 and (b) W2 by layer and stack; (c) Post-LN and (d) Pre-LN by depth."""
    by_layers = {
        panel: {
            f"{norm} {stack}": by_layer(judge.by_layer(measured, norm, f"{stack}.{matrix}"))
            for norm, stack in product(NORMS, STACKS)
        }
        for panel, matrix in PANELS.items()
    }
    by_depths = {
        panel: {f"{norm} decoder": by_depth(judge.last_layer(measured, norm))}
        for panel, norm in zip("cd", NORMS, strict=True)
    }
    return by_layers | by_depths


def attention_gradients(measured: Measured) -> Panels:
    """Return the gradients of the attention projections by layer, which the paper does not show."""
    return {
        f"{attention}.{projection}": {
            norm: by_layer(judge.by_layer(measured, norm, f"{attention}.{projection}")) for norm in NORMS
        }
        for attention, projection in product(ATTENTIONS, PROJECTIONS)
    }


def hidden_states(measured: Measured) -> dict[str, dict[str, Any]]:
    """Return E norm^2 / d by layer of both models as ``series``, with Lemma 2's ``bounds`` under the same labels."""
    panels: dict[str, dict[str, Any]] = {}
    for norm in NORMS:
        groups = grouped(measured, ("hidden_norms",), ("d", "d_ff"), {"norm": norm, "positions": POSITIONS})
        d = max(width for width, _ in groups)
        curves = [measurement["square"] for _, measurement in groups[d, d]]
        panels[f"simplified {norm}"] = {
            "series": {norm: by_layer(curves)},
            "bounds": {norm: by_number(allowed(norm, passed, d, d) for passed, _ in enumerate(curves[0], 1))},
        }
    for norm in NORMS:
        panel: dict[str, Any] = {"series": {}, "bounds": {}}
        inputs = hidden(measured, norm, "input")
        for (d, d_ff, stack), curves in hidden(measured, norm, "squared").items():
            label, more = f"{norm} {stack}", (fmean(inputs[d, d_ff, stack]), ADDING[stack])
            panel["series"][label] = by_layer(curves)
            panel["bounds"][label] = by_number(
                allowed(norm, passed, d, d_ff, *more) for passed, _ in enumerate(curves[0], 1)
            )
        panels[f"real {norm}"] = panel
    return panels


def allowed(norm: str, passed: int, d: int, d_ff: int, *more: Any) -> Interval:
    """Return Lemma 2's bounds after ``passed`` layers; ``more`` as in `lemmas.pre_bounds`."""
    if norm == "postln":
        return lemmas.post_square(d, d_ff), lemmas.post_square(d, d_ff)
    return lemmas.pre_bounds(passed, d, d_ff, *more)


def by_layer(curves: Sequence[Sequence[float]]) -> Series:
    """Summarise every layer over curves by layer."""
    return by_number([summary(values) for values in zip(*curves, strict=True)])


def by_depth(curves: Sequence[dict[int, float]]) -> Series:
    """Summarise every depth over curves by depth."""
    return {str(depth): summary([curve[depth] for curve in curves]) for depth in sorted(curves[0])}


def by_number(values: Iterable[Sequence[float]]) -> Series:
    """Number values from "1"; the keys are text, for JSON."""
    return {str(number): list(value) for number, value in enumerate(values, 1)}


def summary(values: Sequence[float]) -> list[float]:
    """Return the mean and the interval around it."""
    return [fmean(values), *mean_interval(values)]
