"""The paper's figures 2, 4, 5(b, c) and 6, and those of our grids, from records."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ln_repro.claims.evidence import Evidence
from ln_repro.errors import UserError
from ln_repro.paper.figures import FIGURES, Figure, Panel, Quantity, Reading
from ln_repro.records.record import Record
from ln_repro.records.run_dir import read_json
from ln_repro.report.figure_rates import draw_rates
from ln_repro.report.grids import GRIDS
from ln_repro.report.plotting import (
    COLOURS,
    GREY,
    RUN_AGAIN,
    current,
    figure_style,
    legend_below,
    place,
    save,
    source_of,
    tidy,
)
from ln_repro.report.series import Curve, curve
from ln_repro.report.theory_figures import draw as draw_theory

QUANTITIES: dict[Quantity, str] = {
    "loss": "validation loss (bits per token)", "bleu": "test BLEU (tokenised)", "accuracy": "accuracy (%)"
}  # fmt: skip
RAMPS = {"literal": ":", "short": "-.", "nowarm": "--", "warm": "-"}
"""The line, by the first of these words that an arm's name has."""
MARKS = {
    "RAdam": "D", "higher rate": "^", "lower rate": "v", "fixed rate": "s", "closed form": "*", "step": "p",
    "DeepNorm": "P", "ReZero": "d", "Admin": "h",
}  # fmt: skip
"""The mark, by the words of the label; a circle if it has none. Pre-LN's are open, for print without colours."""
THE_PAPERS = "the paper's, same marks in grey"
ALL = {**FIGURES, **{f"grid_{name}": grid for name, grid in GRIDS.items()}}
NOT_TRANSLATED = {corpus for figure in ALL.values() for corpus in figure.corpora}
WIDTHS = {1: 6.0, 2: 2.9, 3: 2.6, 4: 2.0, 5: 2.0}
"""Of a panel in inches, by the number of columns."""
Arms = Mapping[str, Sequence[Record]]
"""By arm, one record a seed; one a seed and start where runs begin with others' weights."""
LOST = "run not finite or given up"
OF_THE_PAPER = "iwslt"
"""The corpus that the paper's numbers stand beside; beside others they would mean nothing."""


@dataclass(frozen=True)
class Drawn:
    """The files of the figures, and a line for everything that was not drawn."""

    paths: list[Path]
    left_out: list[str]


def draw_all(evidence: Mapping[str, Evidence], theory: Path, out: Path) -> Drawn:
    """Draw the figures of runs, and those of the theory where its record, ``theory``, is there.

    Raises:
        UserError: ``out`` is no folder.
    """
    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: is no folder; figures are written into one")
    found = read_json(theory)
    of_runs = draw_runs(evidence, out)
    of_theory = draw_theory(found["figures"], out) if found else []
    return Drawn(of_runs.paths + draw_rates(evidence, out) + of_theory, of_runs.left_out)


def draw_runs(evidence: Mapping[str, Evidence], folder: Path) -> Drawn:
    """Draw every figure that has something to compare, as PNG and SVG in a folder of its own for each corpus.

    One that was drawn from the same records already is left as it is.
    """
    paths, left_out = [], []
    for corpus, found in sorted(evidence.items()):
        arms = records_by_arm(found)
        for name, figure in figures_of(corpus).items():
            rows, stem = rows_for(figure, corpus), folder / corpus / name
            if reason := pointless(figure, rows, arms):
                left_out.append(f"{corpus}/{name}: {reason}")
                continue
            source = reproducible(rows, arms)
            if not (files := current(stem, source)):
                with figure_style() as pyplot:
                    drawn = draw_figure(pyplot, figure.title, rows, corpus, arms)
                    files = save(drawn, stem, source)
                    pyplot.close(drawn)
            paths += files
    return Drawn(paths, left_out)


def figures_of(corpus: str) -> dict[str, Figure]:
    """Return the figures of what is learnt of a corpus, translation or BERT's task, by name."""
    return {
        name: figure
        for name, figure in ALL.items()
        if (corpus in figure.corpora if figure.corpora else corpus not in NOT_TRANSLATED)
    }


def records_by_arm(evidence: Evidence) -> Arms:
    """Return the records of every arm, one a seed and start."""
    return {
        arm: [run.record for one in evidence.by_start for run in one.arms.get(arm, {}).values()]
        for arm in evidence.arms
    }


def rows_for(figure: Figure, corpus: str) -> list[tuple[Panel, ...]]:
    """Return the rows that are drawn of a corpus: the paper's WMT14 panels of WMT14 alone."""
    return [row for row in figure.rows if row[0].corpus in (OF_THE_PAPER, corpus)]


def named(rows: Iterable[Iterable[Panel]]) -> set[str]:
    """Return the arms of the panels."""
    return {series.arm for row in rows for panel in row for series in panel.series}


def pointless(figure: Figure, rows: Sequence[Sequence[Panel]], arms: Arms) -> str:
    """Return why a figure is not worth drawing, if it is not."""
    found = named(rows) & arms.keys()
    if len(found) < 2:
        return f"{len(found)} of its {len(named(rows))} arms run, which is nothing to compare"
    return "" if not figure.about or figure.about in found else f"{figure.about}, which it is about, has not been run"


def draw_figure(pyplot: Any, title: str, rows: Sequence[Sequence[Panel]], corpus: str, arms: Arms) -> Any:
    """Draw all panels; those of a row share their scale if they show the same."""
    columns, alike = len(rows[0]), len({panel.quantity for panel in rows[0]}) == 1
    figure, axes = pyplot.subplots(len(rows), columns, squeeze=False, sharey="row" if alike else "none")
    seeds: set[int] = set()
    for row, of_row in zip(rows, axes, strict=True):
        for panel, axis in zip(row, of_row, strict=True):
            seeds |= draw_panel(axis, panel, corpus, arms)
            if not alike or axis is of_row[0]:
                axis.set_ylabel(QUANTITIES[panel.quantity])
    for panel, axis in zip(rows[-1], axes[-1], strict=True):
        axis.set_xlabel("updates of pre-training" if panel.quantity == "accuracy" else "epoch")
    figure.suptitle(f"{title}\n{corpus}, {number_of(seeds)}", fontsize="medium")
    note = signature(rows, arms)
    below = 0.12 * len(note.splitlines()) + legend_below(
        figure, axes.flat, min(max(columns, 2), 4), last=[LOST, THE_PAPERS], handlelength=3.2,
        title=note, title_fontproperties={"size": 6},
    )  # fmt: skip
    gaps = 0.15 if alike else 0.75, 0.65 if any(panel.title for panel in rows[-1]) else 0.4
    place(figure, axes, (WIDTHS[columns], 2.1), gaps, above=0.8, below=below)
    return figure


def signature(rows: Sequence[Sequence[Panel]], arms: Arms) -> str:
    """Return what the BLEUs in the panels mean, each signature once."""
    scoring = named([[panel for panel in row if panel.quantity == "bleu"] for row in rows])
    scores = [record["bleu"].get("test_tokenised") for arm in scoring for record in arms.get(arm, ())]
    return "\n".join(sorted({f"BLEU: {score['signature']}" for score in scores if score}))


def reproducible(rows: Sequence[Sequence[Panel]], arms: Arms) -> str:
    """Return how to run again what the panels are drawn from, with a digest of it."""
    records = [record for arm in sorted(named(rows) & arms.keys()) for record in arms[arm]]
    ids = " ".join(record["id"] for record in records)
    data = [[record["epochs"], record["status"]] for record in records]
    return source_of(f"{RUN_AGAIN} {ids}", data)


def draw_panel(axis: Any, panel: Panel, corpus: str, arms: Arms) -> set[int]:
    """Draw the curves of a panel, or that there are none; return by how many seeds they were measured."""
    seeds = set()
    for series in panel.series:
        found = curve(arms.get(series.arm, ()), panel.quantity)
        if found:
            look = style(series.arm, series.label)
            draw_curve(axis, found, series.label, look)
            seeds.add(found.seeds)
            if corpus == OF_THE_PAPER == panel.corpus:
                draw_readings(axis, series.readings, look)
    axis.set_title(panel.title, fontsize="medium")
    tidy(axis)
    if seeds:
        axis.locator_params(axis="x", integer=True, nbins=5)
        axis.locator_params(axis="y", nbins=5)
    else:
        axis.text(0.5, 0.5, "not run", color=GREY, ha="center", va="center", transform=axis.transAxes)
        axis.tick_params(left=False, bottom=False, labelleft=False, labelbottom=False)
        axis.grid(visible=False)
    return seeds


def style(arm: str, label: str) -> dict[str, Any]:
    """Return the look of a curve: norm decides the colour, the ramp the line, rate or optimizer the mark."""
    words = arm.split("_")
    colour = COLOURS.get(words[0], GREY)
    return {
        "color": colour,
        "linestyle": next(line for word, line in RAMPS.items() if word in words),
        "marker": next((mark for word, mark in MARKS.items() if word in label), "o"),
        "markerfacecolor": "white" if words[0] == "preln" else colour,
        "markersize": 4.5,
    }


def draw_curve(axis: Any, found: Curve, label: str, look: dict[str, Any]) -> None:
    """Draw the means, the band of their intervals where there is one, and where runs were lost."""
    axis.plot([*found.means], [*found.means.values()], label=label, **look)
    if found.intervals:
        lows, highs = zip(*found.intervals.values(), strict=True)
        axis.fill_between([*found.intervals], lows, highs, color=look["color"], alpha=0.15, linewidth=0)
    if found.lost:
        epochs, values = zip(*found.lost, strict=True)
        axis.plot(epochs, values, "X", color="black", markersize=8, label=LOST)


def draw_readings(axis: Any, readings: Iterable[Reading], look: dict[str, Any]) -> None:
    """Draw the paper's points of a curve, with their uncertainty, in grey with the curve's own mark."""
    fill = GREY if look["markerfacecolor"] == look["color"] else "white"
    for reading in readings:
        axis.errorbar(
            [*reading.points], [*reading.points.values()], reading.uncertainty, fmt=look["marker"], color=GREY,
            markerfacecolor=fill, markersize=4.5, elinewidth=0.8,
        )  # fmt: skip
        axis.plot([], [], "o", color=GREY, markersize=4.5, label=THE_PAPERS)


def number_of(seeds: set[int]) -> str:
    """Return by how many seeds the curves were measured, in words."""
    if seeds <= {1}:
        return "1 seed"
    least, most = min(seeds), max(seeds)
    return f"{least if least == most else f'{least} to {most}'} seeds: mean and 95 % interval"
