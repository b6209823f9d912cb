"""The committed records and what is found in them, read once for all tests of a process, which do not change them."""

import json
from functools import cache
from typing import Any

from ln_repro.claims.judge import Archive, Row, claim_rows, read_archive
from ln_repro.records.archive import records_folder

RECORDS = records_folder()
RESULTS = RECORDS.parent


@cache
def archive() -> Archive:
    """Return the records, the arms, and the evidence by setting."""
    return read_archive(RECORDS)


@cache
def theory() -> dict[str, Any]:
    """Return the findings and figures of the theory."""
    return json.loads((RESULTS / "theory.json").read_text())  # type: ignore[no-any-return]


@cache
def rows() -> list[Row]:
    """Return the claims with their verdicts."""
    return claim_rows(archive())
