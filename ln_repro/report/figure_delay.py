"""The figure of delays: how many updates a run takes to learn, with a ramp on none, one or both stacks."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ln_repro.claims.evidence import Evidence
from ln_repro.claims.judge import Archive
from ln_repro.claims.lr50 import arms_of
from ln_repro.claims.metrics import falling, reached
from ln_repro.claims.words import SCHEME_NAMES
from ln_repro.records.archive import Run
from ln_repro.report.plotting import COLOURS, RAMPS, SETTING, WIDTH, Look, draw_once, name_line, rate_axis

LEARNED = 2.0
"""Training loss in bits: that of a model that ignores the source stays above 3 (with label smoothing), a good one's is
1.4."""
RATES = (0.0005, 0.008)  # the lowest and the highest rate that are shown
NEVER = 1900.0  # where a run stands that does not learn within the 1,323 updates
BESIDE = {
    ("postln", "nowarm"): (0.001, 0, -10), ("postln", "warm_decoder"): (0.0005, 4, 10),
    ("postln", "warm"): (0.004, 0, -9), ("postln", "warm_encoder"): (0.001, 0, -9),
    ("preln", "nowarm"): (0.0005, 2, -10), ("preln", "warm_decoder"): (0.008, -28, 0),
    ("preln", "warm"): (0.0005, 0, 9), ("preln", "warm_encoder"): (0.004, 0, -10),
}  # fmt: skip
"""By placement and ramp: the rate at which the name of the line stands, and how far right and above it."""


Times = Mapping[float, Sequence[float]]
"""The updates that each seed takes to learn, by rate."""


def runs_of(evidence: Evidence, norm: str, ramp: str) -> Mapping[float, Sequence[Run]]:
    """Return the runs of an arm at `RATES`; without a ramp, the rate decays as it does with one."""
    curve = evidence.curve(arms_of(norm)[0] if ramp == "nowarm" else f"{norm}_{ramp}")
    return {rate: runs for rate, runs in curve.items() if RATES[0] <= rate <= RATES[1]}


def updates_to_learn(evidence: Evidence, norm: str, ramp: str) -> Times:
    """Return the updates after which each run of an arm has `LEARNED`, by rate."""
    return {rate: [min(reached(falling(run, by_epoch=False), LEARNED, falling=True), NEVER) for run in runs]
            for rate, runs in runs_of(evidence, norm, ramp).items()}  # fmt: skip


def draw_delay(archive: Archive, out: Path) -> list[Path]:
    """Draw the figure from runs with new seeds into a folder; none if an arm lacks them."""
    evidence = archive.replication.get(SETTING, Evidence())
    times = {norm: {ramp: updates_to_learn(evidence, norm, ramp) for ramp in RAMPS} for norm in COLOURS}
    if not all(by_rate for of_norm in times.values() for by_rate in of_norm.values()):
        return []
    ids = [run.record.id for norm in COLOURS for ramp in RAMPS for runs in runs_of(evidence, norm, ramp).values()
           for run in runs]  # fmt: skip
    return [draw_once(out / "delay.png", ids, _draw, times)]


def _draw(times: Mapping[str, Mapping[str, Times]], figure: Figure) -> None:
    figure.set_size_inches(WIDTH, 2.5)
    for axis, (norm, of_norm) in zip(figure.subplots(1, 2), times.items(), strict=True):
        for place, (ramp, by_rate) in enumerate(of_norm.items()):
            look = RAMPS[ramp]._replace(colour=COLOURS[norm])
            _draw_times(axis, look, by_rate, 2 ** (0.08 * (place - 1.5)))
            rate, *shift = BESIDE[norm, ramp]
            at = min(by_rate, key=lambda near: abs(near - rate))
            name_line(axis, look.name, at, median(by_rate[at]), shift, color=look.colour, ha="center")
        rate_axis(axis, {rate for by_rate in of_norm.values() for rate in by_rate})
        axis.set_yscale("log", base=2)
        axis.set_yticks([250, 500, 1000, NEVER], ["250", "500", "1000", "never"])
        axis.minorticks_off()
        axis.set(xlabel="peak learning rate", ylim=(170, 2150))
        axis.set_title(f"{SCHEME_NAMES[norm]}: updates to learn, with a ramp on …")
    figure.subplots_adjust(0.07, 0.17, 0.99, 0.9, wspace=0.16)


def _draw_times(axis: Axes, look: Look, by_rate: Times, aside: float) -> None:
    """Draw the seeds of an arm, those that never learn a little aside, and a line through the medians that do."""
    for rate, times in by_rate.items():
        places = [rate * (aside if time == NEVER else 1) for time in times]
        axis.plot(places, times, look.mark, **look.of_seeds)
    medians = {rate: median(times) for rate, times in by_rate.items()}
    rates = sorted({rate * 2**step for rate in medians for step in (0, 1)})  # where it has no runs, the line breaks
    heights = [medians.get(rate, NEVER) for rate in rates]
    axis.plot(rates, [math.nan if height == NEVER else height for height in heights], color=look.colour,
              linestyle=look.style)  # fmt: skip
