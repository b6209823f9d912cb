"""The data of the theory's figures: means and intervals over seeds, by layer or by depth.

A panel maps the label of a series (norm placement and, if there are two, stack) to its points.
"""

from collections.abc import Iterable
from itertools import product
from statistics import fmean
from typing import Any

from ln_repro.theory import judge, lemmas
from ln_repro.theory.checks import STACKS
from ln_repro.theory.judge import Series, series
from ln_repro.theory.plan import NORMS
from ln_repro.theory.quantities import ATTENTIONS as ADDING
from ln_repro.theory.quantities import by_depth, feed_forward_share, gradients, numbered
from ln_repro.theory.unit import Measured, grouped, select

Panels = dict[str, dict[str, Series]]
POSITIONS = 32
"""Sequence length of the simplified model in the figures."""


def figures(measured: Measured) -> dict[str, Any]:
    """Return the panels of every figure for which there are measurements of both norms, by name of the figure."""
    of_norm = [{unit.what for unit, _ in measured if unit.settings.get("norm") == norm} for norm in NORMS]
    available = set.intersection(*of_norm)
    wanted = {
        figure_3: {"real_gradients", "real_last_gradient"},
        hidden_states: {"hidden_norms", "real_hidden_states"},
        shares: {"hidden_norms", "real_hidden_states"},
        simplified_gradients: {"gradients"},
    }
    return {panels.__name__: panels(measured) for panels, needed in wanted.items() if needed <= available}


def figure_3(measured: Measured) -> Panels:
    """Return the panels of figure 3: (a) W1 and (b) W2 by layer and stack; (c) Post-LN and (d) Pre-LN by depth."""

    def by_layer(matrix: str) -> dict[str, Series]:
        return {
            f"{norm} {stack}": series(judge.by_layer(measured, norm, f"{stack}.{matrix}"))
            for norm, stack in product(NORMS, STACKS)
        }

    def last_by_depth(norm: str) -> dict[str, Series]:
        return {f"{norm} decoder": series(judge.last_layer(measured, norm))}

    return {"a": by_layer("w1"), "b": by_layer("w2"), "c": last_by_depth("postln"), "d": last_by_depth("preln")}


def simplified_gradients(measured: Measured) -> Panels:
    """Return the simplified model's gradients of W2: of the last layer by depth, and by layer for each depth."""
    panels: Panels = {}
    for norm in NORMS:
        sizes = grouped(select(measured, ("gradients",), {"norm": norm}), ("d", "d_ff"))
        panels[f"last {norm}"] = {
            f"{norm} d={d} d_ff={d_ff}": series(by_depth(group, gradients())) for (d, d_ff), group in sizes.items()
        }
        widest = max(d for d, d_ff in sizes if d == d_ff)
        panels[f"layers {norm}"] = {
            f"{norm} L={depth}": series([numbered(gradients()(*one)) for one in group])
            for (depth,), group in grouped(sizes[widest, widest], ("layers",)).items()
        }
    return panels


def shares(measured: Measured) -> dict[str, Series]:
    """Return the share of positions whose norm^2 is above 1.1 times its mean, by layer of the 6-6 Transformer."""
    return {
        f"{norm} {stack}": series(numbered(states[stack]["above_squared"]) for _, states in hidden(measured, norm))
        for norm in NORMS
        for stack in reversed(STACKS)
    }


def hidden_states(measured: Measured) -> dict[str, dict[str, Any]]:
    """Return E norm^2 / d by layer of both models as ``series``, with Lemma 2's ``bounds`` under the same labels."""
    panels: dict[str, dict[str, Any]] = {}
    for norm in NORMS:
        sizes = grouped(select(measured, ("hidden_norms",), {"norm": norm, "positions": POSITIONS}), ("d", "d_ff"))
        d = max(width for width, _ in sizes)
        squares = series(numbered(measurement["square"]) for _, measurement in sizes[d, d])
        ends = bounds(norm, squares, lemmas.feed_forward_share(d, d))
        panels[f"simplified {norm}"] = {"series": {norm: squares}, "bounds": {norm: ends}}
    for norm in NORMS:
        panel = panels[f"real {norm}"] = {"series": {}, "bounds": {}}
        selected = hidden(measured, norm)
        model, _ = selected[0]
        for stack in reversed(STACKS):
            squares = series(numbered(states[stack]["squared"]) for _, states in selected)
            start = fmean(states[stack]["input"] for _, states in selected)
            panel["series"][f"{norm} {stack}"] = squares
            share = feed_forward_share(model, stack)
            panel["bounds"][f"{norm} {stack}"] = bounds(norm, squares, share, start, ADDING[stack])
    return panels


def hidden(measured: Measured, norm: str) -> Measured:
    """Return the measurements of hidden states in the 6-6 Transformer."""
    return select(measured, ("real_hidden_states",), {"norm": norm, "init": "xavier"})


def bounds(norm: str, layers: Iterable[str], share: float, *more: Any) -> Series:
    """Return Lemma 2's bounds by layer; ``share`` and ``more`` as in `lemmas.pre_bounds`."""
    post = [1 + share] * 2  # the same in every layer
    return {layer: post if norm == "postln" else [*lemmas.pre_bounds(int(layer), share, *more)] for layer in layers}
