"""Train the four arms <Post-LN, Pre-LN> x <warm-up, no warm-up> on the toy corpus; print the table, draw the curves."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ln_repro.records.run_dir import RunFolder
from ln_repro.report.curves import draw_losses
from ln_repro.report.tables import markdown, signatures
from ln_repro.system.subprocesses import cores

OUT = Path("demo")
EPOCHS = 2
"""Of the arms' own three: by then those that train are at 99 BLEU."""
ARMS = {
    "Pre-LN, no warm-up": "toy_preln_nowarm_anchored",
    "Pre-LN, warm-up": "toy_preln_warm",
    "Post-LN, warm-up": "toy_postln_warm",
    "Post-LN, no warm-up": "toy_postln_nowarm",
}


def train(experiment: str) -> RunFolder:
    """Run one arm as its own command; its progress goes to a file, its directory is its last line."""
    command = [sys.executable, "-m", "ln_repro.cli", "run", f"exp={experiment}"]
    command += [f"train.max_epoch={EPOCHS}", f"paths.runs={OUT}/runs", f"paths.data={OUT}/data", "tracker=none"]
    with (OUT / f"{experiment}.log").open("w") as log:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=log, text=True, check=False)
    if done.returncode:
        sys.exit(f"{experiment} ended with exit code {done.returncode}: see {log.name}")
    print(f"  {experiment} is done", flush=True)
    return RunFolder(Path(done.stdout.splitlines()[-1]))


def main() -> None:
    """Train as many arms at once as there are cores, then show what came out."""
    OUT.mkdir(exist_ok=True)
    jobs = min(cores(), len(ARMS))
    print(f"training {len(ARMS)} arms, {jobs} at a time, about a minute each (logs in {OUT}/)", flush=True)
    subprocess.run(
        [sys.executable, "-m", "ln_repro.cli", "data", "prepare", "data=toy", f"paths.data={OUT}/data"],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    with ThreadPoolExecutor(jobs) as pool:
        folders = dict(zip(ARMS, pool.map(train, ARMS.values()), strict=True))
    records = {label: record for label, folder in folders.items() if (record := folder.record)}
    ends = {label: record["epochs"][-1] for label, record in records.items()}
    rows = [[label, f"{end['valid_loss']:.2f}", f"{end['test_bleu']:.1f}"] for label, end in ends.items()]
    columns = ["toy corpus, 6+6 layers, Adam at 2e-3", "valid loss (bits)", "test BLEU"]
    notes = [note for note in signatures([*records.values()]) if note.startswith("BLEU:")]
    print("\n" + markdown("Does the Transformer need warm-up?", {"columns": columns, "rows": rows, "notes": notes}))
    picture = OUT / "curves.png"
    events = {label: (record["axes"], folders[label].events.read()) for label, record in records.items()}
    draw_losses(events, picture, "Toy corpus, 6+6 layers, Adam at 2e-3")
    print(f"curves: {picture}")


if __name__ == "__main__":
    main()
