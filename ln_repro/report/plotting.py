"""Common parts of all figures: colours, labels, axes, and reproducible files."""

import contextlib
import hashlib
import inspect
import io
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from ln_repro.experiment.name import ArmName
from ln_repro.report.tables import rate_words
from ln_repro.system.files import write_atomically

COLOURS = {"postln": "#E66100", "preln": "#005AB5"}
"""Colours by norm placement: a colour-blind reader can tell them apart, and the second is darker in print."""
GREY = "#767676"
MARKS = {"postln": "o", "preln": "s"}
LINES = {True: "-", False: (0, (3.5, 1.6))}  # line styles, with warm-up and without it
WIDTH = 7.0  # width of a figure in inches, at which its text has at least 8 points
DOTS = 160  # dots per inch
SETTING = "toy"  # the corpus of the figures about failing runs
BEFORE = 0.5  # where update 0 is drawn on the logarithmic axis
STYLE: Any = {
    "font.family": "DejaVu Sans", "font.size": 8, "axes.titlesize": 8.5, "axes.titleweight": "bold",
    "axes.titlelocation": "left", "axes.labelsize": 8, "axes.linewidth": 0.6, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True, "grid.color": "#E4E4E4",
    "grid.linewidth": 0.5, "xtick.labelsize": 8, "ytick.labelsize": 8, "xtick.major.width": 0.6,
    "ytick.major.width": 0.6, "ytick.minor.width": 0.4, "lines.linewidth": 1.6,
}  # fmt: skip
"""Matplotlib's settings for all figures."""
Curve = Mapping[int, float]  # a value by update


class Look(NamedTuple):
    """How a line is drawn: its name, which stands ``up`` points above its end, its colour, its style and its marker."""

    name: str
    colour: str
    style: Any
    up: float = 0
    mark: str = ""
    open: bool = False  # whether the markers are

    @property
    def of_seeds(self) -> dict[str, Any]:
        """The style of the markers of single seeds."""
        face = "white" if self.open else self.colour
        return {"color": self.colour, "markerfacecolor": face, "markersize": 2.8, "alpha": 0.6}


RAMPS = {
    "nowarm": Look("nothing", COLOURS["postln"], LINES[False], mark="o", open=True),
    "warm_decoder": Look("decoder", "#882255", ":", mark="v"),
    "warm_encoder": Look("encoder", "#332288", "-.", mark="^"),
    "warm": Look("both", COLOURS["postln"], LINES[True], mark="o"),
}
"""A scheme's arms; their names are the part of the model with a ramp."""


def line_style(arm: str) -> dict[str, Any]:
    """Return the look of an arm's line: its colour shows the placement of the norm, dashes that there is no warm-up."""
    name = ArmName.of(arm)
    return {"color": COLOURS[name.scheme], "linestyle": LINES[name.warm]}


def rate_axis(axis: Axes, rates: Iterable[float], apart: float = 1.9) -> None:
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


def plain_axis(axis: Axes, ticks: Sequence[float]) -> None:
    """Make the y axis logarithmic, with numbers that are not powers."""
    axis.set_yscale("log")
    axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.yaxis.set_minor_formatter("")


def name_line(axis: Axes, text: str, x: float, y: float, shift: Any = (0, 0), **look: Any) -> None:
    """Write the name of a line beside a point of it, moved by ``shift``, points right and up, on a white halo."""
    halo = [withStroke(linewidth=2.5, foreground="white")]
    axis.annotate(text, (x, y), shift, textcoords="offset points", path_effects=halo, **{"va": "center", **look})


def crosses(line: Mapping[float, float], level: float) -> float | None:
    """Return the largest rate at which a line of values by rate crosses a level; None if it does not."""
    for (left, before), (right, after) in reversed([*pairwise(line.items())]):
        if min(before, after) < level <= max(before, after):
            return float(left * (right / left) ** ((level - before) / (after - before)))
    return None


def draw_curves(axis: Axes, groups: Sequence[tuple[Look, Sequence[Curve]]]) -> None:
    """Draw a line for each run, and for each group a thick one: the median, with its name at its end."""
    for look, of_group in groups:
        curves = [curve for curve in of_group if curve]
        for curve in curves:
            _draw_run(axis, curve, look.colour)
        shared = sorted(set.intersection(*map(set, curves))) if curves else []
        if shared:
            middle = [median(curve[at] for curve in curves) for at in shared]
            axis.plot([max(at, BEFORE) for at in shared], middle, color=look.colour, linestyle=look.style, linewidth=2)
            words = f"{look.name} ({len(curves)})" if look.name else ""
            name_line(axis, words, shared[-1], middle[-1], (0, look.up), color=look.colour, ha="right")
    axis.set_xscale("log", base=2)
    axis.set_xticks([BEFORE, 1, 8, 64, 512], ["0", "1", "8", "64", "512"])
    axis.minorticks_off()


def _draw_run(axis: Axes, curve: Curve, colour: str) -> None:
    axis.plot([max(at, BEFORE) for at in curve], [*curve.values()], color=colour, linewidth=0.5, alpha=0.35)


def draw_bleus(axis: Axes, rows: Sequence[tuple[str, str, Sequence[float]]]) -> None:
    """Draw the BLEU of every seed; a row, from the top, has its name, its colour and its scores."""
    for row, (_, colour, bleus) in enumerate(rows):
        axis.plot(bleus, [row] * len(bleus), "o", color=colour, markersize=4, alpha=0.6)
    axis.set_yticks(range(len(rows)), [name for name, *_ in rows])
    axis.set(xlim=(-6, 106), ylim=(len(rows) - 0.5, -0.5), xlabel="BLEU", title="BLEU of all seeds")


def draw_once(path: Path, ids: Collection[str], draw: Callable[..., None], *content: object) -> Path:
    """Draw a figure as PNG, unless its content and the code are unchanged; return the file, whose folder is created.

    The file names the records ``ids`` that it is drawn from, or `ln-repro theory`, and a checksum of the content, of
    the module of ``draw`` and of this one. ``draw`` takes the content and an empty figure.
    """
    rounded = re.sub(r"\d+\.\d+(e-?\d+)?", lambda number: f"{float(number[0]):.6g}", repr(content))
    digest = hashlib.sha256(rounded.encode())
    for module in (inspect.getfile(draw), __file__):
        digest.update(Path(module).read_bytes())
    origin = "Computed by `ln-repro theory`, from seeds alone"
    if ids:
        origin = f"Drawn from these records, each of which `ln-repro reproduce ID` runs again: {' '.join(ids)}"
    description = f"{origin} (data and code {digest.hexdigest()[:16]})"
    known = None
    with contextlib.suppress(OSError), Image.open(path) as image:  # there may be no file, or none that is a picture
        known = image.info.get("Description")
    if known != description:
        path.parent.mkdir(parents=True, exist_ok=True)
        with rc_context(STYLE):
            draw(*content, figure := Figure())
            figure.savefig(drawn := io.BytesIO(), dpi=DOTS)
        info = PngInfo()
        info.add_text("Description", description, zip=True)
        small = Image.open(drawn).convert("RGB").quantize(32, kmeans=3, dither=Image.Dither.NONE)
        small.save(packed := io.BytesIO(), "PNG", optimize=True, pnginfo=info)
        write_atomically(path, packed.getvalue())  # half a picture would count as drawn
    return path
