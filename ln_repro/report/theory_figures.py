"""The figures of `ln-repro theory`: the paper's figure 3, and one of our own."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ln_repro.report.plotting import COLOURS, GREY, draw_once, legend_below, place, tidy
from ln_repro.report.theory_panels import Series, described

PAPER = {"postln": "x", "preln": "+"}
"""Markers for the paper's values."""
DRAWN = ("figure_3", "hidden_states")
"""The figures that are drawn, each of two rows and two columns."""
PANEL, GAPS = (3.6, 2.1), (0.65, 0.85)
"""Sizes of panels and of the gaps between them, in inches."""


def draw(figures: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw the figures of `ln_repro.theory.figures` named in `DRAWN`, as PNG and SVG; return the paths."""
    paths = []
    for name in DRAWN:
        if panels := figures.get(name):
            paths += draw_once(folder / name, (), panels, partial(draw_figure, name, panels))
    return paths


def draw_figure(name: str, panels: Mapping[str, Any], figure: Any) -> None:
    """Draw the panels of the figure ``name``."""
    axes = figure.subplots(2, 2)
    for (part, content), axis in zip(panels.items(), axes.flat, strict=True):
        panel = described(f"{name} {part}", content)
        for series in sorted(panel["series"], key=lambda series: series["colour"] != "bound"):  # bounds lie behind
            draw_series(axis, series)
        axis.set_title(panel["title"], fontsize="large")
        axis.set(xlabel=panel["x"], ylim=(0, None))
        tidy(axis)
        if axis in axes[:, 0]:
            axis.set_ylabel(panel["y"])
    place(figure, axes, PANEL, GAPS, above=0.4, below=legend_below(figure, axes.flat))


def draw_series(axis: Any, series: Series) -> None:
    """Draw means with their intervals; bounds and the paper's values are grey, lines of the encoder dashed."""
    label, colour = series["label"], series["colour"]
    dashes = "--" if label.endswith("encoder") else ":" if colour == "bound" else "-"
    if colour == "bound":
        axis.plot(series["x"], series["y"], dashes, color=GREY, linewidth=1.2, label=label)
    elif series["marks"]:
        axis.plot(series["x"], series["y"], PAPER[colour], color=GREY, label=label)
    else:
        axis.plot(series["x"], series["y"], f"o{dashes}", color=COLOURS[colour], markersize=4, label=label)
        axis.fill_between(series["x"], series["low"], series["high"], color=COLOURS[colour], alpha=0.15, linewidth=0)
