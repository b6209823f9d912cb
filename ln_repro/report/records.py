"""The records that tables and figures are made of."""

import json
from pathlib import Path
from typing import Any

from ln_repro.errors import UserError
from ln_repro.events import Events
from ln_repro.record import SCHEMA, Record
from ln_repro.report.evidence import Run
from ln_repro.store import read_json


def records_folder() -> Path:
    """Return where a checkout keeps its committed records."""
    return Path(__file__).resolve().parents[2] / "results" / "records"


def read_records(folder: Path) -> list[Record]:
    """Return every record in ``folder``, ordered by experiment and seed.

    Raises:
        UserError: there is no such folder, or a record has another schema.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder of records (tables are made from a checkout, or --records DIR)")
    records = [read_json(path) for path in sorted(folder.glob("*.json"))]
    for record in records:
        if record.get("schema") != SCHEMA:
            raise UserError(f"record {record.get('id')}: schema {record.get('schema')} is not {SCHEMA}")
    return sorted(records, key=lambda record: (record["exp"], record["axes"]["seed"], record["id"]))


def read_runs(folder: Path) -> list[Run]:
    """Return every record in ``folder`` with its events, which may be missing."""
    return [Run(record, Events(folder / f"{record['id']}.events.jsonl").read()) for record in read_records(folder)]


def read_theory(folder: Path) -> list[dict[str, Any]]:
    """Return the findings of the theory that are kept beside a folder of records; none if there is no such file."""
    kept = folder.parent / "theory.json"
    return list(json.loads(kept.read_text())["findings"]) if kept.exists() else []
