"""What every figure shares: colours, the look of axes, the legend, and files that are the same whenever drawn."""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ln_repro.system.paths import PACKAGE

# Okabe and Ito's colours, told apart by colour-blind readers; norm decides the colour, the ramp the line.
COLOURS = {
    "preln": "#0072B2", "postln": "#D55E00", "deepnorm": "#009E73", "rezero": "#CC79A7", "admin": "#E69F00"
}  # fmt: skip
GREY = "#999999"
DOTS = 130
"""An inch, in PNG."""
DRAWING = ("figure_rates", "figures", "grids", "plotting", "series", "theory_figures")
"""The modules that decide what a figure looks like."""
RUN_AGAIN = "Drawn from these records, each of which `ln-repro reproduce ID` runs again:"
Size = tuple[float, float]
"""In inches, across and down."""


@contextmanager
def figure_style() -> Iterator[Any]:
    """Yield pyplot, drawing into files alone; what is saved inside has no date and no random names."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with matplotlib.rc_context({"svg.hashsalt": "ln-repro"}):
        yield pyplot


def tidy(axis: Any) -> None:
    """Give axes a faint grid and no frame."""
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)


def legend_below(figure: Any, axes: Iterable[Any], columns: int = 4, last: Sequence[str] = (), **more: Any) -> float:
    """Put one legend of everything in ``axes`` below them, each label once; return the height it takes, in inches."""
    legends = [axis.get_legend_handles_labels() for axis in axes]
    named = {label: line for lines, labels in legends for line, label in zip(lines, labels, strict=True)}
    named |= {label: named.pop(label) for label in last if label in named}
    columns = min(columns, len(named))
    figure.legend(named.values(), named, loc="lower center", ncols=columns, frameon=False, **more)
    return 0.25 + 0.22 * math.ceil(len(named) / columns)


def place(figure: Any, axes: Any, panel: Size, gaps: Size, above: float, below: float) -> None:
    """Put panels of one size in their places, all in inches: matplotlib takes a third of its time to find them.

    Args:
        figure: what becomes as large as it must.
        axes: the panels, by row.
        panel: width and height of each.
        gaps: between columns, for the labels of their scales, and between rows.
        above: for the titles.
        below: for the legend, under what the last row says of its scale.
    """
    (rows, columns), left, right, bottom = axes.shape, 0.75, 0.15, 0.5 + below
    width = left + columns * panel[0] + (columns - 1) * gaps[0] + right
    height = above + rows * panel[1] + (rows - 1) * gaps[1] + bottom
    figure.set_size_inches(width, height)
    figure.subplots_adjust(
        left / width, bottom / height, 1 - right / width, 1 - above / height, gaps[0] / panel[0], gaps[1] / panel[1]
    )


def source_of(words: str, data: Any) -> str:
    """Return what a figure's files say of their data: its origin, and a digest of it and of the drawing code."""
    digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode())
    drawing = (Path(__file__).with_name(f"{name}.py") for name in DRAWING)
    for path in (*drawing, *sorted((PACKAGE / "paper").glob("*.py"))):
        digest.update(path.read_bytes())
    return f"{words} (data and code {digest.hexdigest()[:16]})"


def current(stem: Path, source: str) -> list[Path]:
    """Return the files of a figure that was drawn from this source already; none if it has to be drawn."""
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg")]
    there = all(path.is_file() for path in paths) and source in paths[1].read_text(encoding="utf-8")
    return paths if there else []


def save(figure: Any, stem: Path, source: str) -> list[Path]:
    """Write ``stem`` as PNG and SVG, its folder made, and return the paths; ``source``, in the files, is its data's."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = []
    for kind, metadata in (("png", {}), ("svg", {"Date": None})):
        paths.append(stem.with_name(f"{stem.name}.{kind}"))
        figure.savefig(paths[-1], dpi=DOTS, metadata={**metadata, "Description": source})
    return paths
