"""The figure of branches: what becomes of a Post-LN encoder whose branches are centred, or scaled, or both."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from ln_repro.claims.causes import cosines, probes
from ln_repro.claims.evidence import Evidence
from ln_repro.claims.judge import Archive
from ln_repro.records.archive import Run
from ln_repro.report.plotting import (
    COLOURS,
    GREY,
    LINES,
    SETTING,
    WIDTH,
    Curve,
    Look,
    draw_bleus,
    draw_curves,
    draw_once,
)

RATE = 0.002  # just above Post-LN's limit without warm-up
ARMS: Mapping[str, Look] = {
    "postln_nowarm": Look("Post-LN", COLOURS["postln"], LINES[False]),
    "shrunk_nowarm": Look("shrunk", "#AA8800", ":"),
    "shrunksignal_nowarm": Look("shrunksignal", GREY, ""),
    "centred_nowarm": Look("centred", "#44AA99", "-"),
    "centredfull_nowarm": Look("centredfull", "#882255", "-."),
    "centredforward_nowarm": Look("centredforward", GREY, ""),
    "centredgradient_nowarm": Look("centredgradient", GREY, ""),
}
"""The arms, all without warm-up and named by their schemes; of those without a style, only the BLEU is drawn."""


def draw_branches(archive: Archive, out: Path) -> list[Path]:
    """Draw runs of Post-LN with changed branches into a folder, and runs without; none if some are missing."""
    part = archive.replication.get(SETTING, Evidence())
    runs = {arm: part.curve(arm).get(RATE, []) for arm in ARMS}
    if not all(runs.values()):
        return []
    return [draw_once(out / "branches.png", [run.record.id for of_arm in runs.values() for run in of_arm], _draw, runs)]


def _squared(run: Run) -> Curve:
    """Return the mean squared cosine, by update; older runs have none."""
    probed = probes(run, "collapse").items()
    return {at: values["squared_cosine"]["encoder"] for at, values in probed if "squared_cosine" in values}


def _draw(runs: Mapping[str, Sequence[Run]], figure: Figure) -> None:
    """Draw the cosines of the encoder's tokens, and the BLEU of every seed."""
    figure.set_size_inches(WIDTH, 2.5)
    cosine, squared, axis = (figure.add_axes((left, 0.17, width, 0.73))
                             for left, width in ((0.05, 0.245), (0.345, 0.245), (0.785, 0.2)))  # fmt: skip
    for probed, values in ((cosine, lambda run: cosines(run)["encoder"]), (squared, _squared)):
        draw_curves(probed, [
            (look._replace(name=""), [*map(values, runs[arm])]) for arm, look in ARMS.items() if look.style
        ])  # fmt: skip
    for probed, title in ((cosine, "Encoder: cosine of tokens"), (squared, "Squared cosine")):
        probed.set(xlabel="update", title=title, ylim=(-0.06, 1.06))
    squared.set_xlim(cosine.get_xlim())
    draw_bleus(axis, [(look.name, look.colour, [run.bleu for run in runs[arm]]) for arm, look in ARMS.items()])
    for label, look in zip(axis.get_yticklabels(), ARMS.values(), strict=True):
        label.set(color=look.colour, weight="bold")
