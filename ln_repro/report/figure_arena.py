"""The figure of the arena: the best BLEU of each scheme, and up to which learning rates it trains."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from ln_repro.claims.arena import LEAST_SCHEMES, Entry, arena
from ln_repro.claims.ceilings import Ceiling
from ln_repro.claims.evidence import Evidence
from ln_repro.claims.intervals import PERCENT, interval
from ln_repro.claims.words import named
from ln_repro.report.plotting import COLOURS, GREY, draw_once, legend_below, place, rate_axis, tidy

NAME = "figure_arena"
RAMPS = {"with warm-up": "o", "without warm-up": "D"}
"""Marker of each of the two ceilings."""


def draw_arena(evidence: Mapping[str, Evidence], out: Path) -> list[Path]:
    """Draw the figure of every setting with enough schemes and return the files."""
    paths = []
    for setting, one in sorted(evidence.items()):
        entries = [] if one.starts else arena(one)
        if len(entries) >= LEAST_SCHEMES:
            runs = {run.record.id: run.bleu for entry in entries for run in entry.runs}
            limits = [[entry.scheme, entry.without.words(), entry.with_ramp.words()] for entry in entries]
            paths += draw_once(out / setting / NAME, runs, [runs, limits], partial(_draw, entries))
    return paths


def _draw(entries: Sequence[Entry], figure: Any) -> None:
    axes = figure.subplots(1, 2, squeeze=False, sharey=True)
    left, right = axes[0]
    rows = range(len(entries))
    for row, entry in zip(rows, entries, strict=True):
        colour = COLOURS.get(entry.scheme, GREY)
        low, high = interval(entry.bleus, PERCENT)
        left.plot([low, min(high, 100)], [row, row], color=colour, linewidth=2, alpha=0.5)
        left.plot(entry.bleus, [row] * len(entry.bleus), ".", color=colour, markersize=5)
        left.plot([fmean(entry.bleus)], [row], "|", color=colour, markersize=14)
        for mark, limit in zip(RAMPS.values(), (entry.with_ramp, entry.without), strict=True):
            _draw_ceiling(right, limit, row, colour, mark)
    for label, mark in RAMPS.items():
        right.plot([], [], mark, color=GREY, markersize=5, linestyle="none", label=label)
    left.set_yticks(rows, [named(entry.scheme) for entry in entries], fontsize=7)
    left.invert_yaxis()
    left.locator_params(axis="x", nbins=4)
    left.ticklabel_format(axis="x", useOffset=False)
    left.tick_params(axis="x", labelsize=8)
    left.set_xlabel("test BLEU at the best rate:\nseeds, mean, 95 % interval", fontsize=8)
    right.set_xlabel(
        "largest rate at which four fifths of the seeds train\n(>: or higher; <, open: trains at no rate run)",
        fontsize=8,
    )
    rate_axis(right, (rate for entry in entries for limit in (entry.without, entry.with_ramp) for rate in limit.rates))
    for axis in (left, right):
        tidy(axis)
    below = legend_below(figure, axes.flat, 3)
    place(figure, axes, (3.4, 0.22 * len(entries) + 0.4), (0.5, 0.3), above=0.2, below=below)


def _draw_ceiling(axis: Any, limit: Ceiling, row: int, colour: str, mark: str) -> None:
    """Draw a ceiling; an arrow to the right if it may be higher, one to the left if it is below the lowest rate run."""
    if limit.rate is limit.above is None:
        return
    rate = min(limit.rates) if limit.rate is None else limit.rate
    height = row + (0.15 if mark == "D" else -0.15)
    fill = "white" if limit.rate is None else colour
    axis.plot([rate], [height], mark, color=colour, markersize=5, markerfacecolor=fill)
    if limit.rate is None or limit.above is None:
        sign, shift = ("<", -10) if limit.rate is None else (">", 5)
        axis.annotate(sign, (rate, height), (shift, 0), textcoords="offset points", color=colour, va="center")
