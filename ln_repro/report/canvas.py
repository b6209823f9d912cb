"""What every figure shares: colours, the look of axes, the legend, and files that are the same whenever drawn."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Okabe and Ito's colours, told apart by colour-blind readers; norm decides the colour, the ramp the line.
COLOURS = {"preln": "#0072B2", "postln": "#D55E00"}
GREY = "#999999"


@contextmanager
def canvas() -> Iterator[Any]:
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


def legend_below(figure: Any, axes: Iterable[Any], columns: int = 4, **more: Any) -> None:
    """Put one legend of everything in ``axes`` below them, each label once."""
    legends = [axis.get_legend_handles_labels() for axis in axes]
    named = {label: line for lines, labels in legends for line, label in zip(lines, labels, strict=True)}
    figure.legend(
        named.values(), named, loc="outside lower center", ncols=min(columns, len(named)), frameon=False, **more
    )


def save(figure: Any, stem: Path) -> list[Path]:
    """Write ``stem`` as PNG and SVG, its folder made, and return the paths.

    The panels are put in their places once: doing it for every format takes longer than drawing them.
    """
    stem.parent.mkdir(parents=True, exist_ok=True)
    figure.get_layout_engine().execute(figure)
    figure.set_layout_engine(None)
    paths = []
    for kind, metadata in (("png", {}), ("svg", {"Date": None})):
        paths.append(stem.with_name(f"{stem.name}.{kind}"))
        figure.savefig(paths[-1], dpi=160, metadata=metadata)
    return paths
