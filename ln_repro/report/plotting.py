"""Common parts of all figures: colours, labels, axes, and reproducible files."""

import hashlib
import inspect
import io
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ln_repro.experiment.name import ArmName
from ln_repro.report import paper_values
from ln_repro.system.files import Json

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {"postln": "#E66100", "preln": "#005AB5"}
"""Colours by norm placement: a colour-blind reader can tell them apart, and the second is darker in print."""
GREY = "#767676"
MARKS = {"postln": "o", "preln": "s"}
LINES = {True: "-", False: (0, (3.5, 1.6))}
"""Line styles, with warm-up and without it."""
WIDTH = 7.0
"""Width of a figure in inches, at which its text has at least 8 points."""
DOTS = 200
"""Dots per inch."""
STYLE: Any = {
    "font.family": "DejaVu Sans", "font.size": 8, "axes.titlesize": 8.5, "axes.titleweight": "bold",
    "axes.titlelocation": "left", "axes.labelsize": 8, "axes.linewidth": 0.6, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True, "grid.color": "#E4E4E4",
    "grid.linewidth": 0.5, "xtick.labelsize": 8, "ytick.labelsize": 8, "xtick.major.width": 0.6,
    "ytick.major.width": 0.6, "ytick.minor.width": 0.4, "lines.linewidth": 1.6,
}  # fmt: skip
"""Matplotlib's settings for all figures."""
FROM_RECORDS = "Drawn from these records, each of which `ln-repro reproduce ID` runs again:"
FROM_THEORY = "Computed by `ln-repro theory`, from seeds alone"


def line_style(arm: str) -> Json:
    """Return the look of an arm's line: its colour shows the placement of the norm, dashes that there is no warm-up."""
    name = ArmName.of(arm)
    return {"color": COLOURS[name.scheme], "linestyle": LINES[name.warm]}


def rate_words(rate: float) -> str:
    """Return a learning rate as all figures write it, without an exponent: 0.002."""
    return f"{rate:.7f}".rstrip("0").rstrip(".")


def rate_axis(axis: "Axes", rates: Iterable[float], apart: float = 1.9) -> None:
    """Make the x axis logarithmic, with a tick at each learning rate, and a number unless it is too near another."""
    ticks, labels = sorted({*rates}), dict[float, str]()
    for rate in reversed(ticks):
        if not labels or rate * apart < min(labels):
            labels[rate] = rate_words(rate)
    axis.set_xscale("log", base=2)
    axis.set_xticks(ticks, [labels.get(rate, "") for rate in ticks])
    axis.set_xlim(ticks[0] / 1.3, ticks[-1] * 1.3)
    axis.minorticks_off()
    axis.grid(visible=False, axis="x")


def plain_axis(axis: "Axes", ticks: Sequence[float]) -> None:
    """Make the y axis logarithmic, with numbers that are not powers."""
    axis.set_yscale("log")
    axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.yaxis.set_minor_formatter("")


def name_line(axis: "Axes", text: str, x: float, y: float, shift: Any = (0, 0), **look: Any) -> None:
    """Write the name of a line beside a point of it, moved by ``shift``, points right and up, on a white halo."""
    from matplotlib.patheffects import withStroke

    halo = [withStroke(linewidth=2.5, foreground="white")]
    axis.annotate(text, (x, y), shift, textcoords="offset points", path_effects=halo, **{"va": "center", **look})


def crosses(line: Mapping[float, float], level: float) -> float | None:
    """Return the largest rate at which a line of values by rate crosses a level; None if it does not."""
    for (left, before), (right, after) in reversed([*pairwise(line.items())]):
        if min(before, after) < level <= max(before, after):
            return float(left * (right / left) ** ((level - before) / (after - before)))
    return None


def draw_once(path: Path, ids: Collection[str], data: object, draw: partial[None]) -> Path:
    """Draw a figure as PNG, unless its data and the code are unchanged; return the file.

    The file names the records ``ids`` that it is drawn from, and a checksum of the code and of ``data``, which must be
    serialisable as JSON. ``draw`` takes an empty figure; the code is that of its module, of this one, and of
    `paper_values`. The file's folder is created.
    """
    from PIL import Image

    digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode())
    for module in (inspect.getfile(draw.func), paper_values.__file__, __file__):
        digest.update(Path(module).read_bytes())
    origin = f"{FROM_RECORDS} {' '.join(ids)}" if ids else FROM_THEORY
    source = f"{origin} (data and code {digest.hexdigest()[:16]})"
    if not (path.is_file() and Image.open(path).info.get("Description") == source):
        from matplotlib import rc_context
        from matplotlib.figure import Figure

        path.parent.mkdir(parents=True, exist_ok=True)
        with rc_context(STYLE):
            draw(figure := Figure())
            _save(figure, path, source)
    return path


def _save(figure: "Figure", path: Path, description: str) -> None:
    """Save a figure with a palette of 64 colours, which takes a quarter of the space of a true-colour image."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    figure.savefig(drawn := io.BytesIO(), dpi=DOTS)
    info = PngInfo()
    info.add_text("Description", description, zip=True)
    Image.open(drawn).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(path, optimize=True, pnginfo=info)
