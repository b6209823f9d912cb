"""The figures of `ln-repro theory`: the paper's figure 3, and two of our own."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ln_repro.report.plotting import COLOURS, GREY, Size, draw_once, legend_below, place, tidy
from ln_repro.report.theory_panels import Series, described

PAPER = {"postln": "x", "preln": "+"}
"""Markers for the paper's values."""
LAYOUTS: dict[str, tuple[int, int, Size, Size]] = {
    "figure_3": (2, 2, (3.6, 2.1), (0.65, 0.85)),
    "attention_gradients": (3, 4, (2.0, 1.7), (0.65, 0.55)),
    "hidden_states": (2, 2, (3.6, 2.1), (0.65, 0.85)),
}
"""Rows, columns, and sizes of panels and of gaps in inches."""


def draw(figures: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw the figures of `ln_repro.theory.figures` that have a layout, as PNG and SVG; return the paths."""
    paths = []
    for name in LAYOUTS:
        if panels := figures.get(name):
            paths += draw_once(folder / name, (), panels, partial(draw_figure, name, panels))
    return paths


def draw_figure(name: str, panels: Mapping[str, Any], figure: Any) -> None:
    """Draw the panels of the figure ``name``; with more than two rows, only the last has labels on its x axes."""
    rows, columns, panel_size, gaps = LAYOUTS[name]
    axes = figure.subplots(rows, columns, squeeze=False)
    for (part, content), axis in zip(panels.items(), axes.flat, strict=True):
        panel = described(f"{name} {part}", content)
        for series in sorted(panel["series"], key=lambda series: series["colour"] != "bound"):  # bounds lie behind
            draw_series(axis, series)
        axis.set_title(panel["title"], fontsize="large" if rows == 2 else "medium")
        axis.set(xlabel=panel["x"] if rows == 2 or axis in axes[-1] else "", ylim=(0, None))
        tidy(axis)
        if axis in axes[:, 0]:
            axis.set_ylabel(panel["y"])
    place(figure, axes, panel_size, gaps, above=0.4, below=legend_below(figure, axes.flat))


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
