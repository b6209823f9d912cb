"""Train the four arms <Post-LN, Pre-LN> x <warm-up, no warm-up> on the toy corpus; print the table, draw the curves."""

import contextlib
import io
import sys
from pathlib import Path

from ln_repro import cli
from ln_repro.records.run_dir import runs_under
from ln_repro.report.curves import draw_losses
from ln_repro.report.tables import markdown, signatures

OUT = Path("demo")
EPOCHS = 2
"""Number of epochs (the experiments have three): after two, the models that train reach 99 BLEU."""
ARMS = {
    "toy_preln_nowarm_anchored": "Pre-LN, no warm-up",
    "toy_preln_warm": "Pre-LN, warm-up",
    "toy_postln_warm": "Post-LN, warm-up",
    "toy_postln_nowarm": "Post-LN, no warm-up",
}


def main() -> None:
    """Train as many arms at once as there are cores, then show what came out."""
    print(f"training {len(ARMS)} arms, about a minute each on a core (logs in {OUT}/runs/sweep)", flush=True)
    arms = ",".join(name.removeprefix("toy_") for name in ARMS)
    settings = [f"train.max_epoch={EPOCHS}", f"paths.runs={OUT}/runs", f"paths.data={OUT}/data", "tracker=none"]
    with contextlib.redirect_stdout(io.StringIO()):
        status = cli.main(["sweep", "grid=design", f"arms={arms}", *settings])
    if status:
        sys.exit(status)
    runs = {record["exp"]: (record, run.events.read()) for run in runs_under(OUT / "runs") if (record := run.record)}
    ends = {label: runs[name][0]["epochs"][-1] for name, label in ARMS.items()}
    rows = [[label, f"{end['valid_loss']:.2f}", f"{end['test_bleu']:.1f}"] for label, end in ends.items()]
    columns = ["toy corpus, 6+6 layers, Adam at 2e-3", "valid loss (bits)", "test BLEU"]
    notes = [note for note in signatures([record for record, _ in runs.values()]) if note.startswith("BLEU:")]
    print("\n" + markdown("Does the Transformer need warm-up?", {"columns": columns, "rows": rows, "notes": notes}))
    picture = OUT / "curves.png"
    events = {label: (runs[name][0]["axes"], runs[name][1]) for name, label in ARMS.items()}
    draw_losses(events, picture, "Toy corpus, 6+6 layers, Adam at 2e-3")
    print(f"curves: {picture}")


if __name__ == "__main__":
    main()
