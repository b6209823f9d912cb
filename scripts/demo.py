"""Train Post-LN and Pre-LN without warm-up and Post-LN with it, on all of the model and on its encoder alone."""

import contextlib
import io
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from ln_repro import cli
from ln_repro.records.events import Event
from ln_repro.records.record import Record
from ln_repro.records.run_dir import runs_under
from ln_repro.report.plotting import COLOURS, DOTS, LINES, STYLE, WIDTH
from ln_repro.report.results import signatures
from ln_repro.report.tables import Table, markdown

OUT = Path("demo")
UPDATES = 600
"""Fewer than the experiments' 1,323, but enough for the models that train to translate most sentences."""
ARMS = {
    "toy_preln_nowarm_anchored": "Pre-LN, no warm-up",
    "toy_postln_warm": "Post-LN, warm-up",
    "toy_postln_warm_encoder": "Post-LN, warm-up of the encoder alone",
    "toy_postln_nowarm": "Post-LN, no warm-up",
}


def main() -> None:
    """Train as many arms at once as there are cores, then show what came out."""
    print(f"training {len(ARMS)} arms, about a minute each on a core (logs in {OUT}/runs/sweep)", flush=True)
    arms = ",".join(name.removeprefix("toy_") for name in ARMS)
    length = ["train.max_epoch=null", f"train.max_update={UPDATES}", "eval.epochs=[2]"]  # the last, which is not whole
    settings = [*length, f"paths.runs={OUT}/runs", f"paths.data={OUT}/data", "tracker=none"]
    began = time.monotonic()
    with contextlib.redirect_stdout(io.StringIO()):
        status = cli.main(["sweep", "grid=design", f"arms={arms}", *settings])
    if status:
        sys.exit(status)
    runs = {record.exp: (record, run.events.read()) for run in runs_under(OUT / "runs") if (record := run.record)}
    ends = {label: runs[name][0].epochs[-1] for name, label in ARMS.items()}
    rows = [[label, f"{end.valid_loss:.2f}", f"{end.test_bleu:.1f}"] for label, end in ends.items()]
    columns = [f"toy corpus, 6+6 layers, Adam at 0.002, {UPDATES} updates", "valid loss (bits)", "test BLEU"]
    notes = [note for note in signatures([record for record, _ in runs.values()]) if note.startswith("BLEU:")]
    print("\n" + markdown("Does the Transformer need warm-up?", Table(columns, rows, notes)))
    picture = OUT / "curves.png"
    draw_losses({label: runs[name] for name, label in ARMS.items()}, picture)
    print(f"curves: {picture} ({(time.monotonic() - began) / 60:.0f} minutes)")


def draw_losses(runs: Mapping[str, tuple[Record, Sequence[Event]]], picture: Path) -> None:
    """Draw the training loss of each run by update, from its record and events."""
    with rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 3.6), layout="constrained")
        axis = figure.subplots()
        for label, (record, events) in runs.items():
            axes = record.axes
            losses = {e["update"]: e["loss"] for e in events if e["kind"] == "train" and e["loss"] is not None}
            line = "-." if axes.part else LINES[axes.warmup_updates > 0]
            axis.plot([*losses], [*losses.values()], label=label, color=COLOURS[axes.norm], linestyle=line)
        axis.set(xlabel="update", ylabel="training loss (bits per token)")
        axis.set_title("Toy, 6+6 layers, peak rate 0.002")
        axis.legend(frameon=False)
        figure.savefig(picture, dpi=DOTS)


if __name__ == "__main__":
    main()
