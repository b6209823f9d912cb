"""Common parts of all figures: colours, axes, legend, and reproducible files."""

import hashlib
import io
import json
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from ln_repro.system.paths import PACKAGE

COLOURS = {
    "preln": "#0072B2", "postln": "#D55E00", "deepnorm": "#009E73", "rezero": "#CC79A7", "admin": "#E69F00"
}  # fmt: skip
"""Colours by norm placement, from Okabe and Ito's palette, which is suitable for colour-blind readers."""
GREY = "#999999"
DOTS = 130
"""Dots per inch in PNG files."""
DRAWING = "figure_rates figures plotting theory_figures theory_panels".split()
"""The modules on which the look of a figure depends."""
FROM_RECORDS = "Drawn from these records, each of which `ln-repro reproduce ID` runs again:"
FROM_THEORY = "Computed by `ln-repro theory`, from seeds alone"
Size = tuple[float, float]
"""Width and height in inches."""


def tidy(axis: Any) -> None:
    """Add a faint grid and remove the frame."""
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)


def rate_axis(axis: Any, rates: Iterable[float]) -> None:
    """Make the x axis logarithmic, with a tick at each learning rate and a number where there is room for it."""
    ticks, labels = sorted({*rates}), dict[float, str]()
    for rate in ticks:
        if not labels or rate > 1.5 * max(labels):
            labels[rate] = f"{rate:g}"
    axis.set_xscale("log", base=2)
    axis.set_xticks(ticks, [labels.get(rate, "") for rate in ticks], fontsize=8)
    axis.minorticks_off()


def legend_below(figure: Any, axes: Iterable[Any], columns: int = 4, last: Sequence[str] = (), **more: Any) -> float:
    """Add a common legend below all ``axes``, with the labels ``last`` at its end; return its height in inches."""
    legends = [axis.get_legend_handles_labels() for axis in axes]
    named = {label: line for lines, labels in legends for line, label in zip(lines, labels, strict=True)}
    named |= {label: named.pop(label) for label in last if label in named}
    columns = max(1, min(columns, len(named)))
    figure.legend(named.values(), named, loc="lower center", ncols=columns, frameon=False, **more)
    return 0.25 + 0.22 * math.ceil(len(named) / columns)


def place(figure: Any, axes: Any, panel: Size, gaps: Size, above: float, below: float, right: float = 0.15) -> None:
    """Resize a figure to panels of equal size, with gaps between columns and rows and space around them, in inches.

    Matplotlib's own layout engines take a third of the drawing time.
    """
    (rows, columns), left, bottom = axes.shape, 0.75, 0.5 + below
    width = left + columns * panel[0] + (columns - 1) * gaps[0] + right
    height = above + rows * panel[1] + (rows - 1) * gaps[1] + bottom
    figure.set_size_inches(width, height)
    figure.subplots_adjust(
        left / width, bottom / height, 1 - right / width, 1 - above / height, gaps[0] / panel[0], gaps[1] / panel[1]
    )


def draw_once(stem: Path, ids: Collection[str], data: Any, draw: Callable[[Any], None]) -> list[Path]:
    """Draw a figure as PNG and SVG, unless its data and the code are unchanged; return the files.

    The files name the records ``ids`` that they are drawn from, and a checksum of the code and of ``data``, which must
    be serialisable as JSON. ``draw`` takes an empty figure. The folder of ``stem`` is created.
    """
    origin = f"{FROM_RECORDS} {' '.join(ids)}" if ids else FROM_THEORY
    digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode())
    code = (Path(__file__).with_name(f"{name}.py") for name in DRAWING)
    for path in (*code, *sorted((PACKAGE / "paper").glob("*.py"))):
        digest.update(path.read_bytes())
    source = f"{origin} (data and code {digest.hexdigest()[:16]})"
    png, svg = paths = [stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg")]
    if not (png.is_file() and svg.is_file() and source in svg.read_text(encoding="utf-8")):
        from matplotlib import rc_context
        from matplotlib.figure import Figure

        stem.parent.mkdir(parents=True, exist_ok=True)
        # reproducible ids; text stays text, without Matplotlib's list of ten font families at each word
        with rc_context({"svg.hashsalt": "ln-repro", "svg.fonttype": "none", "font.sans-serif": ["DejaVu Sans"]}):
            draw(figure := Figure())
            _save_png(figure, png, source)
            figure.savefig(svg, dpi=DOTS, metadata={"Description": source, "Date": None})
    return paths


def _save_png(figure: Any, path: Path, description: str) -> None:
    """Save a figure with a palette of 64 colours, which takes a quarter of the space of a true-colour image."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    figure.savefig(drawn := io.BytesIO(), dpi=DOTS)
    info = PngInfo()
    info.add_text("Description", description)
    Image.open(drawn).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(path, optimize=True, pnginfo=info)
