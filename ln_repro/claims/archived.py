"""The archived records as evidence."""

from pathlib import Path
from typing import NamedTuple

from ln_repro.claims.arms import Arms
from ln_repro.claims.evidence import Evidence
from ln_repro.claims.judge import evidence_of
from ln_repro.records.archive import Kept, read_kept


class Archive(NamedTuple):
    """The records in a folder, the arms of the named experiments, and the evidence by setting."""

    kept: Kept
    arms: Arms
    evidence: dict[str, Evidence]


def read_archive(folder: Path) -> Archive:
    """Return the records in a folder and the evidence from them."""
    kept, arms = read_kept(folder), Arms(folder)
    return Archive(kept, arms, evidence_of(kept.runs, arms, kept.corpora))
