"""Figures of runs: the paper's figures 2, 4, 5 and 6, and our own."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from ln_repro.claims.evidence import Evidence
from ln_repro.claims.intervals import Interval, mean_interval
from ln_repro.claims.words import named
from ln_repro.experiment.name import ArmName
from ln_repro.paper.figures import FIGURES, Figure, Panel, Quantity, Reading
from ln_repro.records.record import Record
from ln_repro.report.figure_rates import SETTINGS, draw_rates
from ln_repro.report.plotting import COLOURS, GREY, draw_once, legend_below, place, tidy
from ln_repro.report.theory_figures import draw as draw_theory
from ln_repro.system.files import read_json

QUANTITIES: dict[Quantity, str] = {
    "loss": "validation loss (bits per token)", "bleu": "test BLEU (tokenised)", "accuracy": "accuracy (%)"
}  # fmt: skip
FIELDS: dict[Quantity, str] = {"loss": "valid_loss", "bleu": "test_bleu_tokenised"}
"""Fields of a record's epochs; the paper's BLEU is the tokenised one."""
RAMPS = {"literal": ":", "short": "-.", "nowarm": "--", "warm": "-"}
"""Line styles, by the first of these words that is part of an arm's name."""
MARKS = {"RAdam": "D", "higher rate": "^", "lower rate": "v", "fixed rate": "s"}
"""Markers, by words in the label; the default is a circle. Those of Pre-LN are open, for printing without colours."""
HEADINGS = {**SETTINGS, "wmt": "WMT14", "multi30k": "Multi30k, 3+3 layers"}
"""Display names of settings that are called otherwise than their corpus."""
THE_PAPERS = "the paper's, same marks in grey"
NOT_TRANSLATED = {corpus for figure in FIGURES.values() for corpus in figure.corpora}
WIDTHS = {1: 6.0, 2: 2.9}
"""Width of a panel in inches, by the number of columns."""
Arms = Mapping[str, Sequence[Record]]
"""The records of each arm: one per seed or, for fine-tuning, one per seed and checkpoint."""
ENDED = "run diverged or stopped early"
NOT_RUN = "not run at the\nsetting's rates"
OF_THE_PAPER = "iwslt"
"""The setting with the paper's corpus; only its figures show the paper's values."""


@dataclass(frozen=True)
class Curve:
    """A quantity of an arm by epoch or, for accuracy, by updates of pre-training."""

    means: dict[int, float]  # over the seeds with a value
    intervals: dict[int, Interval]  # of 95 %, clipped to possible values, where there are several seeds
    ends: list[tuple[int, float]]  # the last point of every run that diverged or was stopped early
    seeds: int  # number of seeds


def draw_all(evidence: Mapping[str, Evidence], theory: Path, out: Path) -> tuple[list[Path], list[str]]:
    """Draw the figures of runs, and those of the theory if the file ``theory`` exists; return as `draw_runs`."""
    content = read_json(theory, dict) or {}
    paths, left_out = draw_runs(evidence, out)
    return paths + draw_rates(evidence, out) + draw_theory(content.get("figures", {}), out), left_out


def draw_runs(evidence: Mapping[str, Evidence], folder: Path) -> tuple[list[Path], list[str]]:
    """Draw every figure for which at least two arms were run, as PNG and SVG in one folder per corpus.

    Figures that were already drawn from the same records are not drawn again. Return the files, and a message for each
    figure that was not drawn.
    """
    paths, left_out = list[Path](), list[str]()
    for corpus, of_corpus in sorted(evidence.items()):
        arms = records_by_arm(of_corpus)
        for name, figure in figures_of(corpus).items():
            rows = [row for row in figure.rows if row[0].corpus in (OF_THE_PAPER, corpus)]  # WMT14's for WMT14 alone
            wanted = {arm for row in rows for panel in row for arm in panel.arms}
            run = sorted(wanted & arms.keys())
            if len(run) < 2:
                left_out.append(f"{corpus}/{name}: {len(run)} of its {len(wanted)} arms run so far")
                continue
            if figure.about and figure.about not in run:
                left_out.append(f"{corpus}/{name}: its main arm, {figure.about}, has not been run")
                continue
            records = [record for arm in run for record in arms[arm]]
            data = [[[row.model_dump() for row in record.epochs], record.status] for record in records]
            draw = partial(draw_figure, figure.title, rows, corpus, arms)
            paths += draw_once(folder / corpus / name, [record.id for record in records], data, draw)
    return paths, left_out


def figures_of(corpus: str) -> dict[str, Figure]:
    """Return the figures for a corpus by name: those about translation, or those about BERT."""
    return {
        name: figure
        for name, figure in FIGURES.items()
        if (corpus in figure.corpora if figure.corpora else corpus not in NOT_TRANSLATED)
    }


def records_by_arm(evidence: Evidence) -> Arms:
    """Return the records of every arm."""
    return {
        arm: [run.record for one in evidence.by_start for run in one.arms.get(arm, {}).values()]
        for arm in evidence.arms
    }


def draw_figure(title: str, rows: Sequence[Sequence[Panel]], corpus: str, arms: Arms, figure: Any) -> None:
    """Draw all panels of a figure; panels of a row share the y axis if they show the same quantity."""
    columns, alike = len(rows[0]), len({panel.quantity for panel in rows[0]}) == 1
    axes = figure.subplots(len(rows), columns, squeeze=False, sharey="row" if alike else "none")
    seeds: set[int] = set()
    for row, of_row in zip(rows, axes, strict=True):
        for panel, axis in zip(row, of_row, strict=True):
            seeds |= draw_panel(axis, panel, corpus, arms)
            if not alike or axis is of_row[0]:
                axis.set_ylabel(QUANTITIES[panel.quantity])
    for panel, axis in zip(rows[-1], axes[-1], strict=True):
        axis.set_xlabel("updates of pre-training" if panel.quantity == "accuracy" else "epoch")
    number = f"{min(seeds)} to {max(seeds)}" if len(seeds) > 1 else str(max(seeds, default=1))
    spread = "" if number == "1" else "s: mean and 95 % interval"
    figure.suptitle(f"{title}\n{HEADINGS.get(corpus, named(corpus))}, {number} seed{spread}", fontsize="medium")
    note = signature(rows, arms)
    below = 0.12 * len(note.splitlines()) + legend_below(
        figure, axes.flat, min(max(columns, 2), 4), last=[ENDED, THE_PAPERS], handlelength=3.2,
        title=note, title_fontproperties={"size": 6},
    )  # fmt: skip
    gaps = 0.15 if alike else 0.75, 0.65 if any(panel.title for panel in rows[-1]) else 0.4
    place(figure, axes, (WIDTHS[columns], 2.1), gaps, above=0.8, below=below)


def signature(rows: Sequence[Sequence[Panel]], arms: Arms) -> str:
    """Return the distinct signatures of the BLEU scores in the panels."""
    shown = (arm for row in rows for panel in row if panel.quantity == "bleu" for arm in panel.arms)
    scores = [record.bleu.test_tokenised for arm in shown for record in arms.get(arm, ())]
    return "\n".join(sorted({f"BLEU: {score.signature}" for score in scores if score}))


def draw_panel(axis: Any, panel: Panel, corpus: str, arms: Arms) -> set[int]:
    """Draw the curves of a panel, or `NOT_RUN`; return the numbers of seeds of its curves."""
    seeds = set()
    for arm, label in panel.arms.items():
        if line := curve(arms.get(arm, ()), panel.quantity):
            look = style(arm, label)
            draw_curve(axis, line, label, look)
            seeds.add(line.seeds)
            if corpus == OF_THE_PAPER == panel.corpus:
                draw_readings(axis, panel.readings.get(arm, ()), look)
    rates = sorted({record.experiment.lr for arm in panel.arms for record in arms.get(arm, ())})
    shown = f", rate{'s' * (len(rates) > 1)} {' and '.join(f'{rate:g}' for rate in rates)}"
    axis.set_title(panel.title + shown * bool(panel.title and 0 < len(rates) < 3), fontsize="medium")
    tidy(axis)
    if seeds:
        axis.locator_params(axis="x", integer=True, nbins=5)
        axis.locator_params(axis="y", nbins=5)
    else:
        axis.text(0.5, 0.5, NOT_RUN, color=GREY, ha="center", va="center", transform=axis.transAxes)
        axis.tick_params(left=False, bottom=False, labelleft=False, labelbottom=False)
        axis.grid(visible=False)
    return seeds


def curve(records: Sequence[Record], quantity: Quantity) -> Curve | None:
    """Return a quantity over the seeds of an arm; None if no run has it."""
    runs = [points(record, quantity) for record in records]
    values = {x: [run[x] for run in runs if x in run] for x in sorted(set().union(*runs))}
    if not values:
        return None
    most = math.inf if quantity == "loss" else 100
    intervals = {x: mean_interval(seeds) for x, seeds in values.items() if len(seeds) > 1}
    return Curve(
        means={x: fmean(seeds) for x, seeds in values.items()},
        intervals={x: (max(low, 0), min(high, most)) for x, (low, high) in intervals.items()},
        ends=[[*run.items()][-1] for one, run in zip(records, runs, strict=True) if one.status == "diverged" and run],
        seeds=len({record.axes.seed for record in records}),
    )


def points(record: Record, quantity: Quantity) -> dict[int, float]:
    """Return the finite values of a run by epoch or, for accuracy, its value in per cent by updates of pre-training."""
    if quantity == "accuracy":
        start, share = record.experiment.start, record.accuracy
        return {} if start is None or start.update is None or share is None else {start.update: 100 * share}
    values = {row.epoch: getattr(row, FIELDS[quantity]) for row in record.epochs}
    return {epoch: value for epoch, value in values.items() if value is not None}


def style(arm: str, label: str) -> dict[str, Any]:
    """Return the style of a curve: its colour depends on the norm, its line on warm-up, its marker on the label."""
    name = ArmName.of(arm)
    colour = COLOURS.get(name.scheme, GREY)
    return {
        "color": colour,
        "linestyle": next(line for word, line in RAMPS.items() if word in name.parts),
        "marker": next((mark for word, mark in MARKS.items() if word in label), "o"),
        "markerfacecolor": "white" if name.scheme == "preln" else colour,
        "markersize": 4.5,
    }


def draw_curve(axis: Any, line: Curve, label: str, look: dict[str, Any]) -> None:
    """Draw the means, their intervals as a band, and the points where runs diverged or were stopped early."""
    axis.plot([*line.means], [*line.means.values()], label=label, **look)
    if line.intervals:
        lows, highs = zip(*line.intervals.values(), strict=True)
        axis.fill_between([*line.intervals], lows, highs, color=look["color"], alpha=0.15, linewidth=0)
        if len(line.means) == 1:  # a band needs two points
            axis.vlines([*line.intervals], lows, highs, color=look["color"], alpha=0.5)
    if line.ends:
        axis.plot(*zip(*line.ends, strict=True), "X", color="black", markersize=4.5, alpha=0.6, label=ENDED)


def draw_readings(axis: Any, readings: Iterable[Reading], look: dict[str, Any]) -> None:
    """Draw the paper's values of a curve with their uncertainty, in grey and with the marker of the curve."""
    fill = GREY if look["markerfacecolor"] == look["color"] else "white"
    for reading in readings:
        axis.errorbar(
            [*reading.points], [*reading.points.values()], reading.uncertainty, fmt=look["marker"], color=GREY,
            markerfacecolor=fill, markersize=4.5, elinewidth=0.8,
        )  # fmt: skip
        axis.plot([], [], "o", color=GREY, markersize=4.5, label=THE_PAPERS)
