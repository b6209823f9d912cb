"""The figure of the collapse: tokens become alike, gradients vanish; which stack needs the ramp."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ln_repro.claims.causes import STACKS, cosines, probes, relative_gradients
from ln_repro.claims.evidence import TRAINS, Evidence
from ln_repro.claims.judge import Archive
from ln_repro.claims.rates import lowest_loss
from ln_repro.claims.words import SCHEME_NAMES
from ln_repro.records.archive import Run
from ln_repro.report.plotting import (
    GREY,
    RAMPS,
    SETTING,
    WIDTH,
    Look,
    crosses,
    draw_curves,
    draw_once,
    name_line,
    rate_axis,
)

LOWEST = 0.001  # rate from which on BLEU is drawn; at lower ones, all arms train
OUTCOMES = {True: Look("trains", "#44AA99", "-", 10), False: Look("does not train", "#882255", "--", -9)}
RAMPED = ("postln", "deepnorm")  # schemes of which one stack alone has had a ramp
HEIGHTS = {"nowarm": 52, "warm_decoder": 25, "warm_encoder": 45, "warm": 60}
"""The BLEU at which the name of each of `RAMPS` stands beside its line."""


def collapses(evidence: Evidence) -> list[tuple[Run, bool]]:
    """Return Post-LN's probed runs, with and without warm-up, at the rate of each arm's lowest mean loss and above.

    Beside each is whether it trains. At lower rates, an arm may be under-trained, which is another matter.
    """
    probed = list[tuple[Run, bool]]()
    for arm in sorted(evidence.rates.keys() & {"postln_warm", "postln_nowarm"}):
        curve = evidence.curve(arm)
        best = lowest_loss(curve)
        above = [run for rate, runs in curve.items() if rate >= best for run in runs]
        probed += [(run, evidence.trained(run)) for run in above if 0 in probes(run, "collapse")]
    return probed


def by_ramp(parts: Sequence[Evidence], scheme: str) -> dict[str, dict[float, list[Run]]]:
    """Return all seeds by arm of `RAMPS` and rate, at the rates at which one stack alone has a ramp."""
    runs: dict[str, dict[float, list[Run]]] = {arm: {} for arm in RAMPS}
    for arm, of_arm in runs.items():
        for part in parts:
            for rate, of_rate in part.curve(f"{scheme}_{arm}").items():
                of_arm.setdefault(rate, []).extend(of_rate)
    rates = {rate for arm in ("warm_decoder", "warm_encoder") for rate in runs[arm] if rate >= LOWEST}
    return {arm: {rate: of_arm[rate] for rate in sorted(rates & {*of_arm})} for arm, of_arm in runs.items() if rates}


def draw_collapse(archive: Archive, out: Path) -> list[Path]:
    """Draw the figure into a folder; none without probed runs."""
    parts = [part[SETTING] for part in (archive.evidence, archive.replication) if SETTING in part]
    probed = [run for part in parts for run in collapses(part)]
    ramped = {scheme: runs for scheme in RAMPED if (runs := by_ramp(parts, scheme))}
    if not probed and not ramped:
        return []
    curves = [curve for arms in ramped.values() for curve in arms.values()]
    shown = [run for run, _ in probed] + [run for curve in curves for runs in curve.values() for run in runs]
    bleus = {scheme: {arm: _bleus(curve) for arm, curve in arms.items()} for scheme, arms in ramped.items()}
    return [draw_once(out / "collapse.png", [*dict.fromkeys(run.record.id for run in shown)], _draw, probed, bleus)]


Bleus = Mapping[str, Mapping[float, Sequence[float]]]
"""BLEU of the seeds, by arm of `RAMPS` and rate."""


def _bleus(curve: Mapping[float, Sequence[Run]]) -> dict[float, list[float]]:
    return {rate: [run.bleu for run in runs] for rate, runs in curve.items()}


def _draw(probed: Sequence[tuple[Run, bool]], ramped: Mapping[str, Bleus], figure: Figure) -> None:
    figure.set_size_inches(WIDTH, 3.8)
    grid = figure.add_gridspec(2, 3 if ramped else 2, left=0.075, right=0.99, bottom=0.12, top=0.93, wspace=0.28,
                               hspace=0.14)  # fmt: skip
    for row, stack in enumerate(STACKS):
        cosine, gradient = (figure.add_subplot(grid[row, column]) for column in range(2))
        for axis, measure in ((cosine, cosines), (gradient, relative_gradients)):
            draw_curves(axis, [
                (look, [measure(run)[stack] for run, trains in probed if trains == outcome])
                for outcome, look in OUTCOMES.items()
            ])  # fmt: skip
        cosine.set_ylim(-0.03, 1.06)
        cosine.set_ylabel(f"Post-LN's {stack}", fontweight="bold")
        gradient.set_yscale("log")
        gradient.set_ylim(top=100)
        gradient.set_yticks([1, 1e-4, 1e-8, 1e-12], ["1", "10⁻⁴", "10⁻⁸", "10⁻¹²"])
        for axis, title in ((cosine, "Cosine between tokens"), (gradient, "Relative gradient, layer 1")):
            axis.tick_params(labelbottom=row == 1)
            axis.set(xlabel="update" if row == 1 else "", title=title if row == 0 else "")
    for row, (scheme, bleus) in enumerate(ramped.items()):
        axis, last = figure.add_subplot(grid[row, 2]), row == len(ramped) - 1
        _draw_ramps(axis, bleus)
        axis.axhline(100 * TRAINS, color=GREY, linewidth=0.6)  # the best arms have 100
        rate_axis(axis, {rate for bleus in ramped.values() for curve in bleus.values() for rate in curve})
        axis.tick_params(labelbottom=last)
        axis.set_xlabel("peak learning rate" if last else "")
        axis.set_ylabel(SCHEME_NAMES[scheme], fontweight="bold", labelpad=0)
        axis.set_title("BLEU, with a ramp on …" if row == 0 else "")


def _draw_ramps(axis: Axes, bleus: Bleus) -> None:
    """Draw the BLEU of a scheme by rate for each part of the model with a ramp, and its name where it falls."""
    for arm, look in RAMPS.items():
        if curve := bleus[arm]:
            seeds = [(rate, bleu) for rate, of_rate in curve.items() for bleu in of_rate]
            axis.plot(*zip(*seeds, strict=True), look.mark, **look.of_seeds)
            means = {rate: fmean(of_rate) for rate, of_rate in curve.items()}
            axis.plot([*means], [*means.values()], color=look.colour, linestyle=look.style)
            if place := crosses(means, HEIGHTS[arm]):
                name_line(axis, look.name, place, HEIGHTS[arm], (4, 0), color=look.colour)
            else:
                end, side = (min(means), "left") if arm == "nowarm" else (max(means), "right")
                shift = (0, 12 if means[end] < HEIGHTS[arm] else -8)
                name_line(axis, look.name, end, means[end], shift, color=look.colour, ha=side)
