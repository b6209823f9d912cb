"""The figures of `ln-repro theory`: the paper's figure 3, and two of our own."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ln_repro.claims.words import SCHEMES
from ln_repro.paper.figure_3 import FIGURE_3
from ln_repro.report.plotting import COLOURS, GREY, Size, draw_once, legend_below, place, tidy

PAPER = {"postln": "x", "preln": "+"}
"""Markers for the paper's values."""
FIGURE_3_TITLES = {
    "a": "(a) W1 of the feed-forward, 6-6",
    "b": "(b) W2 of the feed-forward, 6-6",
    "c": "(c) last layer's W2, Post-LN",
    "d": "(d) last layer's W2, Pre-LN",
}
HIDDEN_TITLES = {
    "simplified postln": "simplified model, Post-LN: x5",
    "simplified preln": "simplified model, Pre-LN: the stream",
    "real postln": "6-6 Transformer, Post-LN: x5",
    "real preln": "6-6 Transformer, Pre-LN: the stream",
}
Points = Mapping[str, Sequence[float]]
"""The mean and both ends of its interval, by layer or depth (as text)."""


def draw(figures: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw the figures of `ln_repro.theory.figures` that have a layout, as PNG and SVG; return the paths."""
    origin = "Computed by `ln-repro theory`, from seeds alone"
    drawn = [draw_once(folder / name, origin, figures[name], partial(draw_figure, name, figures[name]))
             for name in LAYOUTS if figures.get(name)]  # fmt: skip
    return [path for paths in drawn for path in paths]


def draw_figure(name: str, panels: Mapping[str, Any], pyplot: Any) -> Any:
    """Return the figure ``name`` with these panels."""
    rows, columns, panel_size, gaps, draw_panel = LAYOUTS[name]
    figure, axes = pyplot.subplots(rows, columns, squeeze=False)
    for (title, panel), axis in zip(panels.items(), axes.flat, strict=True):
        draw_panel(axis, title, panel)
        axis.set_ylim(bottom=0)
        tidy(axis)
    for axis in axes[:, 0]:
        axis.set_ylabel("norm$^2$ / d" if name == "hidden_states" else "gradient norm")
    place(figure, axes, panel_size, gaps, above=0.4, below=legend_below(figure, axes.flat))
    return figure


def draw_figure_3_panel(axis: Any, name: str, panel: Mapping[str, Points]) -> None:
    """Draw one panel of figure 3, with the paper's values in grey."""
    for label, points in panel.items():
        draw_series(axis, label, points)
    for norm, values in FIGURE_3.get(name, {}).items():
        axis.plot([*values], [*values.values()], PAPER[norm], color=GREY, label=f"paper, {SCHEMES[norm]}")
    axis.set(title=FIGURE_3_TITLES[name], xlabel="layer" if name in "ab" else "layers of encoder and of decoder")


def draw_attention_panel(axis: Any, name: str, panel: Mapping[str, Points]) -> None:
    """Draw the gradients of one projection by layer."""
    for label, points in panel.items():
        draw_series(axis, label, points)
    stack, attention, projection = name.split(".")
    axis.set_title(f"{stack} {attention}: {projection}", fontsize="medium")
    if attention == "cross":
        axis.set_xlabel("layer")


def draw_hidden_panel(axis: Any, name: str, panel: Mapping[str, Mapping[str, Points]]) -> None:
    """Draw norms of hidden states between the bounds of Lemma 2, which coincide for Post-LN."""
    for label, bounds in panel["bounds"].items():
        x = [int(at) for at in bounds]
        least, most = zip(*bounds.values(), strict=True)
        lines = "--" if label.endswith("encoder") else ":"
        axis.plot(x, least, lines, color=GREY, linewidth=1.2, label="Lemma 2" if lines == ":" else None)
        axis.plot(x, most, lines, color=GREY, linewidth=1.2)
    for label, points in panel["series"].items():
        draw_series(axis, label, points)
    axis.set(title=HIDDEN_TITLES[name], xlabel="layer")


def draw_series(axis: Any, label: str, points: Points) -> None:
    """Draw means with their intervals; lines of the encoder are dashed."""
    norm, _, stack = label.partition(" ")
    x = [int(at) for at in points]
    means, lows, highs = zip(*points.values(), strict=True)
    colour = COLOURS[norm]
    axis.plot(x, means, "o--" if stack == "encoder" else "o-", color=colour, markersize=4,
              label=f"{SCHEMES[norm]}{f', {stack}' if stack else ''}")  # fmt: skip
    axis.fill_between(x, lows, highs, color=colour, alpha=0.15, linewidth=0)


Layout = tuple[int, int, Size, Size, Callable[[Any, str, Any], None]]
LAYOUTS: dict[str, Layout] = {
    "figure_3": (2, 2, (3.6, 2.1), (0.65, 0.85), draw_figure_3_panel),
    "attention_gradients": (3, 4, (2.0, 1.7), (0.65, 0.55), draw_attention_panel),
    "hidden_states": (2, 2, (3.6, 2.1), (0.65, 0.85), draw_hidden_panel),
}
"""Rows, columns, sizes of panels and of gaps in inches, and the function that draws a panel."""
