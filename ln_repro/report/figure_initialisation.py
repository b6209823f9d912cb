"""The figure of gradients at initialisation: the paper's figure 3, measured by `ln-repro theory`."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ln_repro.claims.intervals import exponent, mean_ratio
from ln_repro.claims.words import SCHEME_NAMES
from ln_repro.report.plotting import COLOURS, GREY, MARKS, WIDTH, draw_once, name_line, plain_axis
from ln_repro.system.files import Json

FIGURE_3: dict[str, dict[str, dict[int, float]]] = {
    "w1": {
        "preln": {1: 0.22, 2: 0.23, 3: 0.22, 4: 0.18, 5: 0.17, 6: 0.18},
        "postln": {1: 0.06, 2: 0.12, 3: 0.27, 4: 0.37, 5: 0.76, 6: 1.3},
    },
    "w2": {
        "preln": {1: 0.558, 2: 0.430, 3: 0.410, 4: 0.369, 5: 0.310, 6: 0.292},
        "postln": {1: 0.13, 2: 0.199, 3: 0.366, 4: 0.577, 5: 1.098, 6: 1.658},
    },
}
"""Frobenius norm of the mean gradient at initialisation, by layer of a 6-6 model, of figure 3(a) and (b).

W2 was digitised from the plotted points (+-0.005); W1 comes from a second-hand table (+-0.02).
"""
LAST_GRADIENT = (1.55, 1.65)
"""That of the last W2 of Post-LN models with 6 to 14 layers: "around 1.6" (section 3.4), to half of the last digit."""
UNCROSSED = "postln without cross-attention"
Points = Mapping[str, Sequence[float]]  # a mean and the ends of its interval, by layer or depth
TITLES = {"w1": "W1, by layer", "w2": "W2, by layer", "last": "W2 of the last layer, by depth"}
NAMES = {"postln": ("Post-LN", 1.1, 7), "preln": ("Pre-LN", 5.2, -8), UNCROSSED: ("no cross-attention", 1, 14)}
"""The name of each line by layer, the layer that it begins at, and how many points it stands above the line."""
TILT = 31  # degrees by which Post-LN's lines rise


def draw_initialisation(figures: Json, out: Path) -> list[Path]:
    """Draw the figure into a folder from those of `ln_repro.theory.judge.figures`; none if they lack it."""
    panels = figures.get("initialisation")
    return [draw_once(out / "initialisation.png", (), _draw, panels)] if panels else []


def _draw(panels: Mapping[str, Mapping[str, Points]], figure: Figure) -> None:
    figure.set_size_inches(WIDTH, 3)
    axes = dict(zip(TITLES, figure.subplots(1, 3, sharey=True), strict=True))
    for matrix in ("w1", "w2"):
        _draw_by_layer(axes[matrix], matrix, panels[matrix])
    _draw_by_depth(axes["last"], panels["last"])
    for name, axis in axes.items():
        axis.set_title(TITLES[name])
        plain_axis(axis, (0.1, 0.2, 0.5, 1, 2))
        axis.set_ylim(0.05, 3.5)
    axes["w1"].set_ylabel("gradient norm at initialisation")
    figure.subplots_adjust(0.075, 0.155, 0.99, 0.9, wspace=0.08)


def _draw_by_layer(axis: Axes, matrix: str, series: Mapping[str, Points]) -> None:
    """Draw the lines of a panel, each with its name, and the paper's points."""
    for label, points in series.items():
        _draw_line(axis, label, points)
        name, layer, up = NAMES[label]
        look = {"color": _colour(label), "rotation": TILT if label == "postln" else 0, "rotation_mode": "anchor"}
        name_line(axis, name, layer, points[str(int(layer))][0], (0, up), **look)
        if label == "postln":
            growth = mean_ratio([mean for mean, *_ in points.values()])
            name_line(axis, f"×{growth:.2f} a layer", 3, points["3"][0], (9, 10), **look)
    for norm, values in FIGURE_3[matrix].items():
        axis.plot([*values], [*values.values()], MARKS[norm], color=COLOURS[norm], markerfacecolor="white",
                  markersize=4.5)  # fmt: skip
    paper = FIGURE_3[matrix]["postln"]
    name_line(
        axis, f"open: the paper\n(Post-LN ×{mean_ratio([*paper.values()]):.2f})", 2, paper[2], (8, -9), color=GREY
    )
    axis.set_xticks(range(1, len(paper) + 1))
    axis.set_xlabel("decoder layer (6+6 layers)")


def _draw_by_depth(axis: Axes, series: Mapping[str, Points]) -> None:
    """Draw the lines with their exponents of the depth, and the value in the paper's text as a band."""
    low, high = LAST_GRADIENT
    axis.axhspan(low, high, color=GREY, alpha=0.35, linewidth=0)
    axis.annotate("the paper, Post-LN: “around 1.6”", (14, low), (0, -4), textcoords="offset points", color=GREY,
                  ha="right", va="top")  # fmt: skip
    for norm, points in series.items():
        _draw_line(axis, norm, points)
        power = exponent({int(depth): mean for depth, (mean, *_) in points.items()})
        theory = "0" if norm == "postln" else "−0.5"
        text = f"{SCHEME_NAMES[norm]}: exponent {f'{power:.2f}'.replace('-', '−')}\n(theory: {theory})"
        name_line(axis, text, 6, points["6"][0], (0, 15), color=COLOURS[norm])
    axis.set_xticks([*map(int, points)])
    axis.set_xlabel("layers of encoder and of decoder")


def _draw_line(axis: Axes, label: str, points: Points) -> None:
    """Draw means with the interval as a band."""
    places, (means, lows, highs) = [*map(int, points)], zip(*points.values(), strict=True)
    style = {"linestyle": "--"} if label == UNCROSSED else {"marker": MARKS[label], "markersize": 3}
    axis.plot(places, means, color=_colour(label), **style)
    axis.fill_between(places, lows, highs, color=_colour(label), alpha=0.15, linewidth=0)


def _colour(label: str) -> str:
    return COLOURS[label.partition(" ")[0]]
