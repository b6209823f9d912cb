"""The records that tables and figures are made of."""

from pathlib import Path

from ln_repro.errors import UserError
from ln_repro.record import SCHEMA, Record
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
