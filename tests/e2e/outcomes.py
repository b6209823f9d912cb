"""The outcome of a run: all that must not depend on interruptions."""

import json
from pathlib import Path
from typing import Any

COMPARED = ("status", "divergence", "epochs", "bleu", "updates", "target_tokens", "parameters", "data", "id")


def outcome(folder: Path) -> dict[str, Any]:
    """Return the results of a run: its record's, the checksum of every epoch's weights, and every hypothesis."""
    record = json.loads((folder / "record.json").read_text())
    listed = json.loads((folder / "checkpoints" / "manifest.json").read_text())
    weights = {entry["epoch"]: entry["sha256"] for entry in listed if entry["kind"] == "weights"}
    hypotheses = {path.name: path.read_bytes() for path in (folder / "hyps").iterdir()}
    return {**{key: record[key] for key in COMPARED}, "weights": weights, "hypotheses": hypotheses}


def outcomes(runs: Path) -> dict[str, Any]:
    """Return the results of every finished run in a folder, by the name of its directory."""
    return {path.parent.name: outcome(path.parent) for path in sorted(runs.glob("*/record.json"))}
