"""The first figure: how large a learning rate each norm placement can take, with and without warm-up."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ln_repro.claims.evidence import Evidence
from ln_repro.claims.judge import Archive
from ln_repro.claims.lr50 import FACTORS, Lr50, shown_lr50
from ln_repro.claims.metrics import Effect
from ln_repro.claims.words import SCHEME_NAMES
from ln_repro.experiment.name import ArmName
from ln_repro.report import plotting
from ln_repro.report.arena import limit_words
from ln_repro.report.plotting import COLOURS, GREY, MARKS, crosses, draw_once, line_style, name_line

NAMES = {
    "postln_nowarm": "Post-LN, no warm-up", "postln_warm": "Post-LN, warm-up",
    "preln_nowarm_anchored": "Pre-LN, no warm-up", "preln_warm": "Pre-LN, warm-up",
}  # fmt: skip
"""The four arms of the 2x2, from the bottom of the figure to its top."""
BESIDE: Mapping[str, tuple[float, float, str]] = {
    "postln_nowarm": (7, 4, "left"), "postln_warm": (7, -3, "right"),
    "preln_nowarm_anchored": (7, 4, "left"), "preln_warm": (7, 4, "left"),
}  # fmt: skip
"""Where a line has its name: by what the height of the shaded region is divided, and how far to which side, in
points."""


@dataclass(frozen=True)
class Kind:
    """A kind of experiment with a figure of its own."""

    name: str  # of the figure's file
    settings: Mapping[str, str]  # of six-layer models, each in a column with this heading
    arms: Mapping[str, str]  # that stand for those of `NAMES`
    entropy: str  # name of the loss that the shaded region begins at
    words: str  # what has such a loss
    named: bool  # whether the lines have their names beside them, too


TRANSLATION = Kind(
    "rates",
    {"toy": "Toy (generated)", "multi30k6": "Multi30k", "iwslt-60": "IWSLT14, 60 %", "iwslt": "IWSLT14",
     "tatoeba": "Tatoeba"},
    {arm: arm for arm in NAMES}, "source_blind_bits", "as bad as ignoring\nthe source", named=True,
)  # fmt: skip
BERT = Kind(
    "bert",
    {"wikinews": "BERT on Wikinews", "bert": "BERT"},
    {arm: f"{arm.removesuffix('_anchored')}_linear" for arm in NAMES},
    "unigram_bits", "as bad as word frequencies alone", named=False,
)  # fmt: skip
FLOOR, TOP = 0.1, 12.0
"""Smaller and larger differences of the validation NLL in bits are drawn at these ends."""


@dataclass(frozen=True)
class Column:
    """What one setting shows, of the exploration and of the replication with new seeds; each may be empty."""

    title: str
    ids: Sequence[str]  # of the records
    excess: Sequence[Mapping[str, Mapping[float, Sequence[float]]]]  # the seeds' NLL above the best run's, by arm, rate
    limits: Sequence[Mapping[str, Lr50]]
    blind: float  # the excess at which the shaded region begins

    @property
    def rates(self) -> list[float]:
        return sorted({rate for part in self.excess for curve in part.values() for rate in curve})

    def line(self, arm: str) -> dict[float, float]:
        """Return the geometric mean over the seeds of both parts by rate, of differences of at least `FLOOR`."""
        seeds = {rate: [value for part in self.excess for value in part.get(arm, {}).get(rate, ())]
                 for rate in self.rates}  # fmt: skip
        return {rate: geometric_mean(map(clipped, values)) for rate, values in seeds.items() if values}


def clipped(excess: float) -> float:
    return min(max(excess, FLOOR), TOP)


def columns(archive: Archive, kind: Kind = TRANSLATION) -> list[Column]:
    """Return a column for each setting in which some run of the four arms ended with a number."""
    drawn = []
    for setting, title in kind.settings.items():
        parts = [part.get(setting, Evidence()) for part in (archive.evidence, archive.replication)]
        curves = [{name: curve for name, arm in kind.arms.items() if (curve := part.curve(arm))} for part in parts]
        runs = [run for part in curves for curve in part.values() for of_rate in curve.values() for run in of_rate]
        best = min((run.final_nll for run in runs), default=math.inf)
        excess = [{name: {rate: [run.final_nll - best for run in of_rate] for rate, of_rate in curve.items()}
                   for name, curve in part.items()} for part in curves]  # fmt: skip
        limits = [
            {name: limit for name, arm in kind.arms.items() if (limit := shown_lr50(part, arm))} for part in parts
        ]
        if len({rate for curve in curves[1].values() for rate in curve}) < 2:
            limits[1] = {}  # a replication at a single rate has bounds at most, which say less than the exploration
        blind = max(part.entropies.get(kind.entropy, 0.0) for part in parts) or math.inf
        if best < math.inf:
            drawn.append(Column(title, [run.record.id for run in runs], excess, limits, max(blind - best, FLOOR)))
    return drawn


def draw_rates(archive: Archive, out: Path, kind: Kind = TRANSLATION) -> list[Path]:
    """Draw the figure into a folder; none without runs."""
    drawn = columns(archive, kind)
    ids = [id for column in drawn for id in column.ids]
    return [draw_once(out / f"{kind.name}.png", ids, _draw, drawn, kind)] if drawn else []


def _draw(drawn: Sequence[Column], kind: Kind, figure: Figure) -> None:
    """Draw the curves, LR50 as bars on the axis of rates, and with new seeds of all arms the 2x2 with its factors."""
    compared = [column for column in drawn if len(column.limits[1]) == len(NAMES)]
    height, bottom = (5.0, 0.35) if compared else (3.9, 0.17)
    figure.set_size_inches(plotting.WIDTH, height)
    widths = [max(4.1, math.log2(column.rates[-1] / column.rates[0]) + 1) for column in drawn]
    sides = {"left": 0.185, "right": 0.985}
    upper = figure.add_gridspec(2, len(drawn), height_ratios=(3, 1), width_ratios=widths, bottom=bottom,
                                top=1 - 0.24 / height, hspace=0.05, wspace=0.08, **sides)  # fmt: skip
    top = 1.6 * max(clipped(value) for column in drawn for part in column.excess for curve in part.values()
                    for values in curve.values() for value in values)  # fmt: skip
    first: Any = None
    for number, column in enumerate(drawn):
        curves = figure.add_subplot(upper[0, number], sharey=first)
        first = first or curves
        _draw_curves(curves, column, top)
        plotting.rate_axis(curves, column.rates, apart=3)
        if len(column.rates) == 1:
            curves.set_xlim(column.rates[0] / 1.3, column.rates[0] * 1.38)  # the longer names are on the right
        else:
            curves.tick_params(bottom=False, labelbottom=False)
            below = figure.add_subplot(upper[1, number], sharex=curves)
            _draw_limits(below, column, curves is first)
            below.get_xticklabels()[0].set_visible(curves is first)  # or it may touch the last of the column before
        curves.tick_params(which="both", left=curves is first, labelleft=curves is first)
    _name_lines(first, drawn[0], kind, top)
    first.set_ylabel("validation NLL above\nthe best run (bits)")
    marks = [] if kind.named else ["dashed: no warm-up"]
    if any(column.excess[1] for column in drawn):
        marks.insert(0, "filled: exploration; open: replication with new seeds")
    note = "peak learning rate; bars: LR50, where half of the seeds train, with its 95 % interval or a bound"
    figure.text(sides["left"], bottom - 0.37 / height, f"{note}\n{'; '.join(marks)}".rstrip(), va="center")
    lower = figure.add_gridspec(1, max(len(compared), 1), bottom=0.035, top=0.195, wspace=0.1, **sides)
    for number, column in enumerate(compared):
        _draw_factors(figure.add_subplot(lower[number]), column, number == 0)


def _draw_curves(axis: Axes, column: Column, top: float) -> None:
    """Draw the seeds as points, those of the replication open, and their means as lines, or as dashes at one rate."""
    axis.set_title(column.title)
    named = Counter[tuple[str, float]]()
    for arm, name in NAMES.items():
        style, line, scheme = line_style(arm), column.line(arm), ArmName.of(arm).scheme
        for part, fill in zip(column.excess, (style["color"], "white"), strict=True):
            seeds = [(rate, clipped(value)) for rate, values in part.get(arm, {}).items() for value in values]
            axis.plot([rate for rate, _ in seeds], [value for _, value in seeds], MARKS[scheme], color=style["color"],
                      markersize=2.8, markerfacecolor=fill, markeredgewidth=0.6, alpha=0.7)  # fmt: skip
        alone: Any = (
            {"marker": "_", "markersize": 9, "markeredgewidth": 1.6} if len(line) == 1 < len(column.rates) else {}
        )
        axis.plot([*line], [*line.values()], **style, **alone)
        if len(column.rates) == 1 and line:
            ((rate, value),) = line.items()
            right, side = (-3, "right") if ArmName.of(arm).warm else (3, "left")
            look = {"ha": side, "va": "bottom" if value < 1 else "top", "color": style["color"]}
            name_line(axis, name.replace(" ", "\n", 1), rate, value, (right, 24 * named[side, value]), **look)
            named[side, value] += 1
    if column.blind < math.inf:
        axis.axhspan(column.blind, top, color="#EFEFEF", linewidth=0)
    plotting.plain_axis(axis, (0.1, 1, 10))
    axis.set_ylim(FLOOR / 1.2, top)


def _name_lines(axis: Axes, column: Column, kind: Kind, top: float) -> None:
    """Write what the shaded region is, and the name of each line upright beside its rise."""
    if column.blind < math.inf:
        name_line(axis, kind.words, column.rates[0], top / 1.2, color=GREY, va="top")
    for arm, (part, shift, side) in BESIDE.items() if kind.named and len(column.rates) > 1 else ():
        level, line = column.blind / part, {rate: math.log(value) for rate, value in column.line(arm).items()}
        if place := crosses(line, math.log(level)):
            name_line(axis, NAMES[arm].replace(" ", "\n", 1), place, level, (shift, 0), ha=side,
                      color=line_style(arm)["color"], rotation=90)  # fmt: skip


def _draw_limits(axis: Axes, column: Column, first: bool) -> None:
    """Draw LR50 of each arm with its interval, of the replication below that of the exploration."""
    low, high = column.rates[0] / 1.3, column.rates[-1] * 1.3
    colours = {arm: line_style(arm)["color"] for arm in NAMES}
    for row, arm in enumerate(NAMES):
        for number, part in enumerate(column.limits):
            if limit := part.get(arm):
                height = row + (0.17 - 0.34 * number) * all(column.limits)
                ends = [min(max(end, low), high) for end in limit.interval]
                axis.plot(ends, [height] * 2, color=colours[arm], linewidth=2.2, alpha=0.5, solid_capstyle="butt")
                if not 0 < limit.median < math.inf:  # only a bound is known
                    end, mark = (high, ">") if limit.median else (low, "<")
                    axis.plot([end], [height], mark, color=colours[arm], markersize=4, clip_on=False)
                else:
                    axis.plot([limit.median], [height], MARKS[ArmName.of(arm).scheme], color=colours[arm], markersize=4,
                              markerfacecolor="white" if number else colours[arm])  # fmt: skip
    axis.set_yticks(range(len(NAMES)), [*NAMES.values()] if first else [""] * len(NAMES))
    for label, colour in zip(axis.get_yticklabels(), colours.values(), strict=True):
        label.set_color(colour)
    axis.set_ylim(-0.6, len(NAMES) - 0.4)
    axis.tick_params(axis="y", left=False)
    axis.grid(visible=False)


def _draw_factors(axis: Axes, column: Column, first: bool) -> None:
    """Draw the 2x2 of the replication's LR50 with the factors between its cells."""
    axis.set_axis_off()
    axis.set(xlim=(0, 1), ylim=(0, 1))
    across, down = {False: 0.18, True: 0.78}, {"postln": 0.6, "preln": 0.0}
    places = {arm: (across[name.warm], down[name.scheme]) for arm in NAMES for name in [ArmName.of(arm)]}
    middle: dict[str, Any] = {"ha": "center", "va": "center"}
    for warm, x in across.items():
        axis.text(x, 0.9, "warm-up" if warm else "no warm-up", color=GREY, **middle)
    for scheme, y in down.items() if first else ():
        axis.text(-0.08, y, f"LR50, {SCHEME_NAMES[scheme]}", ha="right", va="center", color=COLOURS[scheme])
    axis.text(0.48, 1.14, f"{column.title}, new seeds", fontweight="bold", **middle)
    limits = column.limits[1]
    for arm, (x, y) in places.items():
        axis.text(x, y, limit_words(limits[arm], brief=True), fontsize=9, fontweight="bold", **middle)
    for above, below in FACTORS.values():
        if factor := limits[above].over(limits[below]):
            (x, y), (last_x, last_y) = places[above], places[below]
            words = f"{factor_words(factor)} {'→' if y == last_y else '↓'}"
            axis.text((x + last_x) / 2, (y + last_y) / 2, words, **middle)


def factor_words(factor: Effect) -> str:
    """Return a factor; if only one end of it is known, that end."""
    if math.isfinite(factor.value):
        return f"×{factor.value:.1f}"
    return f"> ×{factor.interval[0]:.1f}" if factor.value > 0 else f"< ×{factor.interval[1]:.1f}"
