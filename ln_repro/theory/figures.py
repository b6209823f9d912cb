"""The numbers of the figures, from measurements: series of mean and interval over seeds, by layer or by depth.

A panel is a mapping from the series' label (norm placement, and stack where there are two) to its points.
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
"""By layer or depth: mean, and the two ends of the interval."""
Panels = dict[str, dict[str, Series]]
PANELS = {"a": "w1", "b": "w2"}
STACKS = ("decoder", "encoder")
ATTENTIONS = ("encoder.self", "decoder.self", "decoder.cross")
PROJECTIONS = ("q", "k", "v", "out")
POSITIONS = 32
"""Length of the simplified model's sequences that is drawn."""


def figures(measured: Measured) -> dict[str, Any]:
    """Return the panels of every figure that was measured, by the figure's name."""
    made = {unit.what for unit, _ in measured}
    found: dict[str, Any] = {}
    if {"real_gradients", "real_last_gradient"} <= made:
        found["figure_3"] = figure_3(measured)
    if "real_gradients" in made:
        found["attention_gradients"] = attention_gradients(measured)
    if {"hidden_norms", "real_hidden_states"} <= made:
        found["hidden_states"] = hidden_states(measured)
        found["shares"] = shares(measured)
    if "gradients" in made:
        found["simplified_gradients"] = simplified_panels(measured)
    return found


def simplified_panels(measured: Measured) -> Panels:
    """Return the simplified model's gradients of W2: the last by depth for each size, and by layer for each depth."""
    panels: Panels = {}
    for norm in NORMS:
        sizes = grouped(measured, ("gradients",), ("d", "d_ff"), {"norm": norm})
        panels[f"last {norm}"] = {
            f"{norm} d={d} d_ff={d_ff}": by_depth(depths_of(made, gradients())) for (d, d_ff), made in sizes.items()
        }
        widest = max(d for d, d_ff in sizes if d == d_ff)
        panels[f"layers {norm}"] = {
            f"{norm} L={depth}": by_layer([gradients()(*one) for one in made])
            for (depth,), made in grouped(sizes[widest, widest], ("gradients",), ("layers",)).items()
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
    """Return, by d, d_ff and stack, what was measured of the hidden states: a curve, or one number, a seed."""
    groups = grouped(measured, ("real_hidden_states",), ("width", "ffn"), {"norm": norm, "init": "xavier"})
    return {
        (width, ffn, stack): [found[stack][name] for _, found in made]
        for (width, ffn), made in groups.items()
        for stack in ("encoder", "decoder")
    }


def figure_3(measured: Measured) -> Panels:
    """Return the paper's: (a) W1 and (b) W2 by layer, decoder and encoder apart; (c) Post-LN, (d) Pre-LN by depth."""
    panels: Panels = {}
    for panel, matrix in PANELS.items():
        panels[panel] = {
            f"{norm} {stack}": by_layer(judge.by_layer(measured, norm, f"{stack}.{matrix}"))
            for norm, stack in product(NORMS, STACKS)
        }
    for panel, norm in zip("cd", NORMS, strict=True):
        panels[panel] = {f"{norm} decoder": by_depth(judge.last_layer(measured, norm))}
    return panels


def attention_gradients(measured: Measured) -> Panels:
    """Return what the paper leaves out: the gradients of attention's projections by layer, by weight's name."""
    return {
        f"{attention}.{projection}": {
            norm: by_layer(judge.by_layer(measured, norm, f"{attention}.{projection}")) for norm in NORMS
        }
        for attention, projection in product(ATTENTIONS, PROJECTIONS)
    }


def hidden_states(measured: Measured) -> dict[str, dict[str, Any]]:
    """Return E norm^2 / d by layer, of the simplified and the real model, beside what Lemma 2 allows.

    A panel holds ``series`` and, under the same labels, ``bounds``: least and most by layer.
    """
    panels: dict[str, dict[str, Any]] = {}
    for norm in NORMS:
        groups = grouped(measured, ("hidden_norms",), ("d", "d_ff"), {"norm": norm, "positions": POSITIONS})
        d = max(width for width, _ in groups)
        curves = [found["square"] for _, found in groups[d, d]]
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
    """Return Lemma 2's least and most after so many layers; ``more`` as in `lemmas.pre_bounds`."""
    if norm == "postln":
        return lemmas.post_square(d, d_ff), lemmas.post_square(d, d_ff)
    return lemmas.pre_bounds(passed, d, d_ff, *more)


def by_layer(curves: Sequence[Sequence[float]]) -> Series:
    """Return the summary of every layer, from curves over layers."""
    return by_number([summary(values) for values in zip(*curves, strict=True)])


def by_depth(curves: Sequence[dict[int, float]]) -> Series:
    """Return the summary at every depth, from curves over depths."""
    return {str(depth): summary([curve[depth] for curve in curves]) for depth in sorted(curves[0])}


def by_number(values: Iterable[Sequence[float]]) -> Series:
    """Return values by number of the layer, from "1", as JSON wants its keys."""
    return {str(number): list(value) for number, value in enumerate(values, 1)}


def summary(values: Sequence[float]) -> list[float]:
    """Return the mean and the interval around it."""
    return [fmean(values), *mean_interval(values)]
