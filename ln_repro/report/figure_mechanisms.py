"""The figure of mechanisms: each possible cause of Post-LN's need for warm-up during training, and its intervention."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from ln_repro.claims.evidence import Evidence
from ln_repro.claims.mechanisms import FAILING, Assessment, Mechanism, assess, probed_alike
from ln_repro.records.archive import Run
from ln_repro.report.plotting import COLOURS, GREY, draw_once, legend_below, place, tidy

NAME = "figure_mechanisms"
BEFORE = 0.5
"""Where update 0 is drawn on the logarithmic axis."""
STYLES = {
    "postln_warm": ("Post-LN with warm-up", {"color": COLOURS["postln"]}),
    "preln_nowarm_anchored": ("Pre-LN without warm-up", {"color": COLOURS["preln"], "linestyle": "--"}),
    FAILING: ("Post-LN without warm-up", {"color": COLOURS["postln"], "linestyle": "--"}),
}
CHANGED = "Post-LN without warm-up, with the intervention", {"color": COLOURS["deepnorm"], "linestyle": "-."}
LIMIT = "threshold of stability, or largest value in a run that trains"


def draw_mechanisms(evidence: Mapping[str, Evidence], out: Path) -> list[Path]:
    """Draw the figure of every setting with probed runs of an intervention and return the files."""
    paths = []
    for setting, one in sorted(evidence.items()):
        panels = [each for each in assess(one) if each.removed.runs]
        if panels:
            runs = [run for each in panels for arm in runs_of(one, each.mechanism).values() for run in arm]
            data = [[run.record.id, run.bleu, each.mechanism.quantity, each.limit, str(each.rescued)]
                    for each in panels for run in runs]  # fmt: skip
            ids = sorted({run.record.id for run in runs})
            paths += draw_once(out / setting / NAME, ids, data, partial(_draw, one, panels))
    return paths


def runs_of(evidence: Evidence, mechanism: Mechanism) -> dict[str, list[Run]]:
    """Return the runs of each arm of a panel at the rate of the arm that fails, those with the intervention last."""
    rates = {run.experiment.lr for run in evidence.arms.get(FAILING, {}).values()}
    found = {arm: [run for rate in rates for run in evidence.curve(arm).get(rate, ())] for arm in STYLES}
    changed = evidence.others.get(mechanism.option)
    return {**found, mechanism.option: [*changed.arms.get(FAILING, {}).values()] if changed else []}


def _draw(evidence: Evidence, panels: Sequence[Assessment], figure: Any) -> None:
    columns = min(len(panels), 2)
    axes = figure.subplots(-(-len(panels) // columns), columns, squeeze=False)
    for axis, panel in zip_longest(axes.flat, panels):
        if panel is None:
            axis.remove()
            continue
        curves = {arm: [curve for run in runs if (curve := panel.mechanism.of(run))]
                  for arm, runs in runs_of(evidence, panel.mechanism).items()}  # fmt: skip
        for arm, of_arm in curves.items():
            label, style = STYLES.get(arm, CHANGED)
            _draw_curve(axis, probed_alike(of_arm, curves[FAILING]) or of_arm, label, style)
        if panel.limit is not None:
            axis.axhline(panel.limit, color=GREY, linewidth=0.8, linestyle=":", label=LIMIT)
        intervention = f"{panel.mechanism.option}: {panel.rescued} seeds train"
        axis.set_title(f"{panel.mechanism.name}\n{panel.mechanism.quantity}\n{intervention}", fontsize=7)
        axis.set_xlabel("update", fontsize=8)
        axis.set_xscale("log", base=2)
        axis.set_xticks([BEFORE, 1, 8, 64, 512], ["0", "1", "8", "64", "512"], fontsize=8)
        axis.set_yscale("log")
        axis.yaxis.set_minor_formatter("")
        axis.tick_params(axis="y", labelsize=8)
        tidy(axis)
    below = legend_below(figure, axes.flat, 2, last=[LIMIT], fontsize=8)
    place(figure, axes, (3.8, 2.0), (0.55, 0.95), above=0.6, below=below)


def _draw_curve(axis: Any, curves: Sequence[Mapping[int, float]], label: str, style: dict[str, Any]) -> None:
    """Draw the geometric mean over all runs, at the updates that all have, and their range as a band."""
    shared = sorted(set.intersection(*map(set, curves))) if curves else []
    columns = {update: [curve[update] for curve in curves] for update in shared}
    known = {update: values for update, values in columns.items() if all(0 < v < math.inf for v in values)}
    if known:
        places = [max(update, BEFORE) for update in known]
        axis.plot(places, [geometric_mean(values) for values in known.values()], label=label, linewidth=1.5, **style)
        lows, highs = [*map(min, known.values())], [*map(max, known.values())]
        axis.fill_between(places, lows, highs, color=style["color"], alpha=0.15, linewidth=0)
