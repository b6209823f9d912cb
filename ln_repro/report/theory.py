"""What was found of the theory: the table, and the paper's figure 3 with its own values in grey."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from ln_repro.paper.figure_3 import FIGURE_3
from ln_repro.report.curves import COLOURS

TITLES = {
    "a": "(a) W1 of the feed-forward, 6-6",
    "b": "(b) W2 of the feed-forward, 6-6",
    "c": "(c) last layer's W2, Post-LN",
    "d": "(d) last layer's W2, Pre-LN",
}
LABELS = {"postln": "Post-LN", "preln": "Pre-LN"}
PAPER = {"postln": "x", "preln": "+"}
"""Marks of the paper's own values."""


def findings_table(findings: Sequence[Mapping[str, Any]]) -> Table:
    """Return one row a finding: statement, the paper's value, our interval over seeds, verdict."""
    table = Table(box=None, padding=(0, 2, 1, 0), pad_edge=False)
    for column in ("id", "statement", "paper", "ours, 95 %", "verdict"):
        table.add_column(column, no_wrap=column in ("id", "ours, 95 %", "verdict"))
    for found in findings:
        low, high = ("-" if bound is None else f"{bound:.3g}" for bound in found["interval"])
        table.add_row(found["id"], found["statement"], found["paper"], f"{low} .. {high}", found["verdict"])
    return table


def draw_figure_3(panels: Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]], folder: Path) -> list[Path]:
    """Draw the four panels as ``figure_3.png`` and ``figure_3.svg`` in ``folder``; return both paths.

    Args:
        panels: of `ln_repro.theory.figure_3`.
        folder: is made if it is not there.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(9, 6.4), layout="constrained")
    for (name, series), axis in zip(panels.items(), axes.flat, strict=True):
        for label, points in series.items():
            draw_series(axis, label, points)
        for label, values in FIGURE_3.get(name, {}).items():
            axis.plot(range(1, len(values) + 1), values, PAPER[label], color="#999999", label=f"paper, {LABELS[label]}")
        axis.set(title=TITLES[name], xlabel="layer" if name in "ab" else "layers of encoder and of decoder",
                 ylabel="gradient norm")  # fmt: skip
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize="small")
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"figure_3.{kind}" for kind in ("png", "svg")]
    for path in paths:
        figure.savefig(path, dpi=160, metadata={"Date": None} if path.suffix == ".svg" else {})
    pyplot.close(figure)
    return paths


def draw_series(axis: Any, label: str, points: Mapping[str, Sequence[float]]) -> None:
    """Draw means with their intervals; the encoder's, which the paper does not have, dashed."""
    norm, _, stack = label.partition(" ")
    x = [int(at) for at in points]
    means, lows, highs = zip(*points.values(), strict=True)
    colour = COLOURS[norm]
    axis.plot(x, means, "o--" if stack == "encoder" else "o-", color=colour, markersize=4,
              label=f"{LABELS[norm]}{f', {stack}' if stack else ''}")  # fmt: skip
    axis.fill_between(x, lows, highs, color=colour, alpha=0.15, linewidth=0)
