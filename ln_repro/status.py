"""One row per run directory: where it stands, from its files alone."""

from pathlib import Path
from typing import Any

from ln_repro.store import RunFolder, runs_under

Row = dict[str, Any]
COLUMNS = ("exp", "seed", "state", "update", "loss", "bleu", "id")


def rows(folder: Path) -> list[Row]:
    """Return a row for each run below ``folder``."""
    return [row(run) for run in runs_under(folder)]


def row(run: RunFolder) -> Row:
    """Return id, exp, seed, state, update, last training loss (bits), test BLEU and directory of one run."""
    experiment, state = run.experiment or {}, run.state
    record = run.record if state in ("finished", "diverged") else None
    losses = [event for event in run.events.read() if event["kind"] == "train"]
    last = losses[-1] if losses else {"update": 0, "loss": None}
    test = record["bleu"]["test"] if record else None
    return {
        "id": experiment.get("id"),
        "exp": experiment.get("exp"),
        "seed": experiment.get("seed"),
        "state": state,
        "update": last["update"],
        "loss": last["loss"],
        "bleu": test["score"] if test else None,
        "dir": str(run.path),
    }


def table(found: list[Row]) -> str:
    """Return the rows as text, 80 columns wide at most for usual names."""
    if not found:
        return "no runs yet (ln-repro run exp=NAME starts one)"
    cells = [COLUMNS, *(tuple(_text(row[column]) for column in COLUMNS) for row in found)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(COLUMNS))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in cells)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
