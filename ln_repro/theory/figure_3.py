"""The numbers of the paper's figure 3, from measurements: mean and interval over seeds."""

from collections.abc import Sequence
from statistics import fmean

from ln_repro.theory import judge_real
from ln_repro.theory.statistics import mean_interval
from ln_repro.theory.unit import Measured

Series = dict[str, list[float]]
"""By layer or depth: mean, and the two ends of the interval."""
NORMS = ("postln", "preln")
PANELS = {"a": "w1", "b": "w2"}


def figure_3(measured: Measured) -> dict[str, dict[str, Series]]:
    """Return the panels: (a) W1 and (b) W2 by layer, decoder and encoder apart; (c) Post-LN and (d) Pre-LN by depth."""
    panels: dict[str, dict[str, Series]] = {}
    for panel, matrix in PANELS.items():
        panels[panel] = {
            f"{norm} {stack}": by_layer(measured, norm, f"{stack}.{matrix}")
            for norm in NORMS
            for stack in ("decoder", "encoder")
        }
    for panel, norm in zip("cd", NORMS, strict=True):
        panels[panel] = {norm: by_depth(measured, norm)}
    return panels


def by_layer(measured: Measured, norm: str, weight: str) -> Series:
    """Return the gradient of one kind of weight, layer by layer."""
    curves = judge_real.by_layer(measured, norm, weight)
    return {str(layer): summary(values) for layer, values in enumerate(zip(*curves, strict=True), 1)}


def by_depth(measured: Measured, norm: str) -> Series:
    """Return the last decoder layer's W2 gradient, depth by depth."""
    curves = judge_real.by_depth(measured, norm)
    return {str(depth): summary([curve[depth] for curve in curves]) for depth in sorted(curves[0])}


def summary(values: Sequence[float]) -> list[float]:
    """Return the mean and the interval around it."""
    return [fmean(values), *mean_interval(values)]
