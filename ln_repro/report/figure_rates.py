"""The figure of learning rates: BLEU and NLL by peak rate, for each norm placement with and without warm-up."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from ln_repro.claims.evidence import FAILS, TRAINS, Evidence
from ln_repro.claims.ranges import usable_range
from ln_repro.experiment.name import ArmName
from ln_repro.records.archive import Run
from ln_repro.report.plotting import COLOURS, GREY, draw_once, legend_below, place, rate_axis, tidy

NAME = "figure_rates"
SETTINGS = {"toy": "toy, 6+6 layers", "multi30k6": "Multi30k, 6+6 layers", "iwslt": "IWSLT14"}
"""The settings in the figure, each in a column with this heading."""
ARMS = {
    "postln_warm": "Post-LN with warm-up", "postln_nowarm": "Post-LN without warm-up",
    "preln_warm": "Pre-LN with warm-up", "preln_nowarm_anchored": "Pre-LN without warm-up",
}  # fmt: skip
CEILING = "ceiling: largest rate at which four fifths of the seeds train (open: without warm-up; >: or higher)"


def draw_rates(evidence: Mapping[str, Evidence], out: Path) -> list[Path]:
    """Draw the figure into a folder and return its files; none if no setting was run at two rates."""
    settings = [name for name in SETTINGS if name in evidence
                and any(len(evidence[name].curve(arm)) > 1 for arm in ARMS)]  # fmt: skip
    if not settings:
        return []
    runs = {run.record.id: [run.bleu, run.nll, evidence[name].best(run), evidence[name].entropies]
            for name in settings for arm in ARMS
            for of_rate in evidence[name].curve(arm).values() for run in of_rate}  # fmt: skip
    return draw_once(out / NAME, runs, [runs, TRAINS, FAILS], partial(_draw, evidence, settings))


def _draw(evidence: Mapping[str, Evidence], settings: Sequence[str], figure: Any) -> None:
    """Draw one column per setting: BLEU above, NLL below."""
    axes = figure.subplots(2, len(settings), squeeze=False, sharex="col")
    for column, setting in enumerate(settings):
        _draw_setting(axes[:, column], evidence[setting], SETTINGS[setting])
    axes[0, 0].set_ylabel("test BLEU (tokenised)")
    axes[1, 0].set_ylabel("validation NLL (bits per token)")
    below = legend_below(figure, axes.flat, 2, last=[CEILING])
    place(figure, axes, (4.2, 2.3), (0.6, 0.25), above=0.95, below=below, right=0.6)


def _draw_setting(axes: Sequence[Any], evidence: Evidence, title: str) -> None:
    above, below = axes
    runs = [run for arm in ARMS for of_rate in evidence.curve(arm).values() for run in of_rate]
    best = max(evidence.best(run)[0] for run in runs)
    for share, text in ((TRAINS, "trains"), (FAILS, "fails")):
        _draw_limit(above, share * best, text, 1.01, va="center")
    for number, (arm, label) in enumerate(ARMS.items()):
        if curve := evidence.curve(arm):
            name = ArmName.of(arm)
            style = {"color": COLOURS[name.scheme], "linestyle": "-" if name.warm else "--"}
            _draw_curve(above, curve, "bleu", label, style)
            _draw_curve(below, curve, "nll", label, style)
            if limit := usable_range(evidence, arm):
                above.plot([limit.high], [1.04 + 0.05 * number], "v", color=COLOURS[name.scheme], clip_on=False,
                           transform=above.get_xaxis_transform())  # fmt: skip
    above.plot([], [], "v", color=GREY, linestyle="none", label=CEILING)
    if (blind := evidence.entropies.get("source_blind_bits")) is not None:
        _draw_limit(below, blind, "without\nthe source", 1.01, va="center")
    above.set_title(title, fontsize="medium", pad=42)
    above.set_ylim(bottom=0)
    below.set_ylim(bottom=0)
    below.set_xlabel("peak learning rate")
    for axis in axes:
        rate_axis(axis, (rate for arm in ARMS for rate in evidence.curve(arm)))
        tidy(axis)


def _draw_limit(axis: Any, height: float, text: str, at: float, **where: str) -> None:
    """Draw a horizontal line with a text beside it, at a part of the axis's width."""
    axis.axhline(height, color=GREY, linewidth=0.8, linestyle=":")
    axis.annotate(text, (at, height), xycoords=("axes fraction", "data"), color=GREY, fontsize=7, **where)


def _draw_curve(
    axis: Any, curve: Mapping[float, Sequence[Run]], quantity: str, label: str, style: dict[str, Any]
) -> None:
    """Draw the seeds as points and their means as a line."""
    points = [(rate, getattr(run, quantity)) for rate, runs in curve.items() for run in runs]
    finite = [(rate, value) for rate, value in points if math.isfinite(value)]
    if finite:
        axis.plot(*zip(*finite, strict=True), ".", color=style["color"], alpha=0.5, markersize=4)
    means = {rate: fmean(value for at, value in finite if at == rate) for rate in dict(finite)}
    mark = "_" if len(means) == 1 else None  # a line needs two points
    axis.plot([*means], [*means.values()], label=label, linewidth=1.6, marker=mark, **style)
