"""The archived records as evidence."""

from pathlib import Path
from typing import NamedTuple

from ln_repro.claims.arms import Arms
from ln_repro.claims.evidence import EXPLORED, Evidence
from ln_repro.claims.judge import evidence_of
from ln_repro.records.archive import Kept, read_kept


class Archive(NamedTuple):
    """The records in a folder, the arms of the named experiments, and the evidence by setting.

    ``evidence`` is of the exploratory runs, ``replication`` of those whose rules had been fixed before.
    """

    kept: Kept
    arms: Arms
    evidence: dict[str, Evidence]
    replication: dict[str, Evidence]


def read_archive(folder: Path) -> Archive:
    """Return the records in a folder and the evidence from them."""
    kept, arms = read_kept(folder), Arms(folder)
    parts = [[run for run in kept.runs if (run.seed > EXPLORED) == later] for later in (False, True)]
    return Archive(kept, arms, *(evidence_of(runs, arms, kept.corpora) for runs in parts))
