"""The figure of bursts: whether a model recovers from a few updates at a high rate, and with what made new."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from ln_repro.claims.causes import cosines, probes, relative_gradients
from ln_repro.claims.evidence import Evidence
from ln_repro.claims.judge import Archive
from ln_repro.records.archive import Run
from ln_repro.report.plotting import COLOURS, GREY, LINES, SETTING, WIDTH, Look, draw_bleus, draw_curves, draw_once

UPDATES = 16  # of a burst
NEW = "#44AA99"
Place = tuple[str, float]
"""An arm and the rate of its first updates."""
ROWS: Mapping[Place, tuple[str, str]] = {
    ("postln_nowarm", 0.0005): ("Post-LN, 0.0005", COLOURS["postln"]),
    ("postln_nowarm_burst16", 0.005): ("0.005, then 0.0005", COLOURS["postln"]),
    ("postln_nowarm_burst16_newadam", 0.005): ("Adam reset", COLOURS["postln"]),
    ("postln_nowarm_burst16_newdecoder", 0.005): ("Adam, decoder reset", COLOURS["postln"]),
    ("postln_nowarm_burst16_newencoder", 0.005): ("Adam, encoder reset", COLOURS["postln"]),
    ("postln_nowarm_burst16_newencoderweights", 0.005): ("encoder reset", NEW),
    ("preln_nowarm_burst16", 0.005): ("Pre-LN, 0.005, then 0.0005", COLOURS["preln"]),
    ("preln_nowarm_burst16", 0.02): ("Pre-LN, 0.02, then 0.002", COLOURS["preln"]),
}
"""Name and colour of each row of the right panel, from its top."""
CURVES: Mapping[Place, Look] = {
    ("postln_nowarm_burst16", 0.005): Look("Post-LN", COLOURS["postln"], LINES[False], -9),
    ("postln_nowarm_burst16_newencoderweights", 0.005): Look("encoder reset", NEW, "-.", 9),
    ("preln_nowarm_burst16", 0.02): Look("Pre-LN, 0.02", COLOURS["preln"], LINES[False], 12),
}
"""The runs of which the probes are drawn; the names stand in the left panel."""


def draw_burst(archive: Archive, out: Path) -> list[Path]:
    """Draw runs with a burst, and runs without one, into a folder; none if some of them are missing."""
    part = archive.replication.get(SETTING, Evidence())
    runs = {(arm, rate): part.curve(arm).get(rate, []) for arm, rate in ROWS}
    if not all(runs.values()):
        return []
    probed = {place: [run for run in runs[place] if probes(run, "collapse")] for place in CURVES}
    bleus = {place: [run.bleu for run in of_place] for place, of_place in runs.items()}
    ids = [run.record.id for of_place in runs.values() for run in of_place]
    return [draw_once(out / "burst.png", ids, _draw, probed, bleus)]


def _draw(probed: Mapping[Place, Sequence[Run]], bleus: Mapping[Place, Sequence[float]], figure: Figure) -> None:
    """Draw cosine and gradient of the encoder, and the BLEU of every seed."""
    figure.set_size_inches(WIDTH, 2.5)
    cosine, gradient, axis = (figure.add_axes((left, 0.17, width, 0.73))
                              for left, width in ((0.05, 0.235), (0.345, 0.235), (0.81, 0.175)))  # fmt: skip
    draw_curves(cosine, [(look, [cosines(run)["encoder"] for run in probed[place]]) for place, look in CURVES.items()])
    draw_curves(gradient, [(look._replace(name=""), [relative_gradients(run)["encoder"] for run in probed[place]])
                           for place, look in CURVES.items()])  # fmt: skip
    for panel, title in ((cosine, "Encoder: cosine of tokens"), (gradient, "Encoder: gradient, layer 1")):
        panel.axvspan(panel.get_xlim()[0], UPDATES, color="#EFEFEF", linewidth=0)
        panel.set(xlabel="update (grey: high rate)", title=title)
    cosine.set_ylim(-0.03, 1.06)
    gradient.set_yscale("log")
    gradient.set_yticks([1, 1e-2, 1e-4, 1e-6], ["1", "10⁻²", "10⁻⁴", "10⁻⁶"])
    gradient.minorticks_off()
    gradient.set_xlim(cosine.get_xlim())
    draw_bleus(axis, [(*row, bleus[place]) for place, row in ROWS.items()])
    axis.axhline(5.5, color=GREY, linewidth=0.6)
