"""The committed records and what is found in them, read once for all tests of a process, which do not change them."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from ln_repro.claims.evidence import Evidence
from ln_repro.claims.judge import claim_rows, evidence_of
from ln_repro.commands.archive import arms_beside
from ln_repro.records.archive import Kept, read_kept, records_folder

RECORDS = records_folder()
RESULTS = RECORDS.parent


@cache
def kept() -> Kept:
    """Return the records."""
    return read_kept(RECORDS)


@cache
def evidence() -> Mapping[str, Evidence]:
    """Return the evidence that they are, by setting."""
    return evidence_of(kept().runs, arms_beside(RECORDS), kept().corpora)


@cache
def theory() -> dict[str, Any]:
    """Return the findings and figures of the theory."""
    return json.loads((RESULTS / "theory.json").read_text())  # type: ignore[no-any-return]


@cache
def rows() -> list[dict[str, Any]]:
    """Return the claims with their verdicts."""
    return claim_rows(evidence(), theory()["findings"])
