"""The figure of convergence: BLEU by epoch as in the paper's figure 4(b), and ours."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ln_repro.claims.evidence import Evidence
from ln_repro.claims.intervals import Interval, mean_interval
from ln_repro.claims.judge import Archive
from ln_repro.report.plotting import GREY, WIDTH, draw_once, line_style, name_line
from ln_repro.report.tables import rate_words
from ln_repro.system.progress import plural

FIGURE_4B = {
    "preln_nowarm": [11.7, 20.7, 25.8, 28.7, 29.9, 30.4, 31.6, 32.0, 33.0, 33.2, 33.3, 33.5, 33.5, 33.3, 33.4],
    "postln_warm": [1.8, 9.2, 17.4, 23.4, 27.0, 28.4, 30.6, 31.2, 31.2, 32.1, 32.8, 32.8, 33.1, 33.1, 33.1],
    "postln_nowarm_radam": [1.6, 7.0, 15.9, 21.4, 24.8, 26.6, 28.7, 29.5, 30.1, 31.1, 31.3, 31.7, 32.0, 32.1, 32.1],
}  # fmt: skip
"""BLEU of IWSLT14 after each epoch, digitised from the image of figure 4(b) (+-0.1; Post-LN's from epoch 11 on +-0.2).

Pre-LN with RAdam lies at most 0.3 above Pre-LN with Adam from epoch 3 on. The curves of figures 2, 4(c), 4(d), 5(b),
5(c) and 6 could not be read.
"""
SETTINGS = {"multi30k6": "Multi30k", "tatoeba": "Tatoeba", "iwslt-60": "IWSLT14, 60 %", "iwslt": "IWSLT14"}
"""The settings of six-layer models that are trained for as many epochs as the paper's."""
FASTER, SLOWER = "preln_nowarm_anchored", "postln_warm"  # the arms that the paper compares
PAPERS = {
    "preln_nowarm": ("Pre-LN, no warm-up", 10, 1.07), "postln_warm": ("Post-LN, warm-up", 5, 0.62),
    "postln_nowarm_radam": ("Post-LN, RAdam", 4, 0.48),
}  # fmt: skip
"""The paper's arms, with the name of each, the epoch that it stands at and its height over the highest final BLEU."""
OURS = {
    "preln_warm": ("Pre-LN, warm-up", 4, 0.6), FASTER: ("Pre-LN, no warm-up", 9, 1.07),
    SLOWER: ("Post-LN, warm-up", 3, 0.4), "postln_nowarm": ("Post-LN, no warm-up", 9, 0.06),
}  # fmt: skip
ALMOST_ONE = {"preln_warm": ("", 9, 1.07), FASTER: ("Pre-LN, both", 9, 1.07), SLOWER: ("Post-LN, warm-up", 6, 0.45)}
NAMES = {"multi30k6": OURS | ALMOST_ONE}
"""The same of ours, where the names of a setting stand elsewhere."""
ALIKE = (9, 15)
"""The epochs after which the paper finds Pre-LN and Post-LN to be alike (33.0 and 33.1 BLEU)."""
Points = Mapping[int, float]  # a value by epoch


@dataclass(frozen=True)
class Curve:
    """The BLEU of an arm by epoch: means over the seeds, and their 95 % intervals where there are several."""

    means: Points
    intervals: Mapping[int, Interval]
    seeds: int = 1
    rate: float = 0.0  # 0: the paper's, which does not say it


def curves(evidence: Evidence) -> dict[str, Curve]:
    """Return the curves of the arms in `OURS`, each at its setting's rate."""
    by_arm = {}
    for arm in OURS:
        runs = [*evidence.arms.get(arm, {}).values()]
        of_seeds = [run.curve("test_bleu_tokenised") for run in runs]
        shared = sorted(set.intersection(*map(set, of_seeds))) if of_seeds else []
        if shared:  # there are none if a run diverged in its first epoch
            values = {epoch: [points[epoch] for points in of_seeds] for epoch in shared}
            intervals = {epoch: mean_interval(seeds) for epoch, seeds in values.items() if len(seeds) > 1}
            means = {epoch: fmean(seeds) for epoch, seeds in values.items()}
            by_arm[arm] = Curve(means, intervals, len(runs), runs[0].experiment.lr)
    return by_arm


def catches_up(faster: Points, slower: Points) -> tuple[int, int] | None:
    """Return the first epoch after which one arm has the other's final BLEU, and the last one; None if it never has."""
    last = max(slower)
    return next(((epoch, last) for epoch, bleu in sorted(faster.items()) if bleu >= slower[last]), None)


def draw_convergence(archive: Archive, out: Path) -> list[Path]:
    """Draw the figure into a folder; none if the two arms that the paper compares were run nowhere."""
    evidence = {**archive.evidence, **archive.replication}  # the replication where there are both
    drawn = {setting: curves(evidence[setting]) for setting in SETTINGS if setting in evidence}
    drawn = {setting: of_arms for setting, of_arms in drawn.items() if {FASTER, SLOWER} <= of_arms.keys()}
    if not drawn:
        return []
    ids = [run.record.id for setting, of_arms in drawn.items() for arm in of_arms
           for run in evidence[setting].arms[arm].values()]  # fmt: skip
    return [draw_once(out / "convergence.png", ids, _draw, drawn)]


def _draw(drawn: Mapping[str, Mapping[str, Curve]], figure: Figure) -> None:
    figure.set_size_inches(WIDTH, 2.9)
    axes = figure.subplots(1, 1 + len(drawn))
    paper = {arm: Curve(dict(enumerate(values, 1)), {}) for arm, values in FIGURE_4B.items()}
    _draw_panel(axes[0], paper, PAPERS)
    _mark(axes[0], paper["preln_nowarm"].means, paper["postln_warm"].means, ALIKE)
    axes[0].set_title("The paper: IWSLT14")
    for axis, (setting, of_arms) in zip(axes[1:], drawn.items(), strict=True):
        _draw_panel(axis, of_arms, NAMES.get(setting, OURS))
        faster, slower = of_arms[FASTER].means, of_arms[SLOWER].means
        if alike := catches_up(faster, slower):
            _mark(axis, faster, slower, alike)
        rates = dict.fromkeys(rate_words(curve.rate) for curve in of_arms.values())
        seeds = sorted({curve.seeds for curve in of_arms.values()})
        fewest = f"{seeds[0]} to " if len(seeds) > 1 else ""
        axis.set_title(f"{SETTINGS[setting]} at {', '.join(rates)}: {fewest}{plural(seeds[-1], 'seed')}")
    axes[0].set_ylabel("test BLEU")
    figure.subplots_adjust(0.065, 0.15, 0.99, 0.91, wspace=0.17)


def _draw_panel(axis: Axes, drawn: Mapping[str, Curve], names: Mapping[str, tuple[str, int, float]]) -> None:
    """Draw the curves, with a line from the name of each to it unless the name is above or below its end."""
    best = max(curve.means[max(curve.means)] for curve in drawn.values()) or 1.0
    for arm, curve in drawn.items():
        name, place, height = names[arm]
        epoch = min(curve.means, key=lambda decoded: abs(decoded - place))
        style = line_style(arm)
        look = {"color": style["color"]}
        axis.plot([*curve.means], [*curve.means.values()], **style)
        if curve.intervals:
            lows, highs = zip(*curve.intervals.values(), strict=True)
            axis.fill_between([*curve.intervals], lows, highs, **look, alpha=0.15, linewidth=0)
        beside = 0.1 < height < 1
        if beside:
            axis.plot([epoch, epoch + 1.8], [curve.means[epoch], height * best], **look, linewidth=0.6)
        where = (epoch + 2, "left") if beside else (epoch, "center")
        name_line(axis, name, where[0], height * best, ha=where[1], **look)
    axis.set_xticks([1, 5, 10, 15])
    axis.set_ylim(-0.02 * best, 1.2 * best)
    axis.set_xlabel("epoch")


def _mark(axis: Axes, faster: Points, slower: Points, epochs: tuple[int, int]) -> None:
    """Mark the epochs after which two curves have the same BLEU, and say which they are."""
    for points, epoch in zip((faster, slower), epochs, strict=True):
        axis.plot([epoch] * 2, [0, points[epoch]], ":", color=GREY, linewidth=0.8)
        axis.plot([epoch], [points[epoch]], "o", color="black", markerfacecolor="none", markersize=6, zorder=4)
    first, last = epochs
    text = f"epoch {first}: {faster[first]:.1f}\nepoch {last}: {slower[last]:.1f}"
    name_line(axis, text, (first + last) / 2, 0.24 * slower[last], ha="center", color="black")
