"""What the commands that read archived records share."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ln_repro.claims.arms import Arms
from ln_repro.claims.evidence import Evidence
from ln_repro.claims.judge import evidence_of
from ln_repro.corpus.prepared import opened
from ln_repro.errors import LnReproError
from ln_repro.records.archive import Kept, find, read_kept
from ln_repro.records.integrity import HYPOTHESES, beside, text_of
from ln_repro.system.paths import data_folder


class Archive(NamedTuple):
    """The records in a folder, the arms of the named experiments, and the evidence by setting."""

    kept: Kept
    arms: Arms
    evidence: dict[str, Evidence]


def read_archive(folder: Path) -> Archive:
    """Return the records in a folder and the evidence from them."""
    kept, arms = read_kept(folder), Arms(folder)
    return Archive(kept, arms, evidence_of(kept.runs, arms, kept.corpora))


def complaints(problems: Sequence[str]) -> int:
    """Print what is wrong with the records; return the exit code."""
    for problem in problems:
        print(f"ln-repro: {problem}", file=sys.stderr)
    return 1 if problems else 0


def translations(folder: Path, record: dict[str, Any]) -> tuple[list[str], list[str]] | None:
    """Return the hypotheses of a record and their references; None if either is not available.

    Raises:
        LnReproError: the hypotheses are damaged.
    """
    data, kept = record["data"], find(folder, record["id"])
    short = f"{data['name']}-{data['fingerprint'].removeprefix('sha256:')[:12]}"
    corpus = opened(data_folder() / "prepared" / short, data["fingerprint"])
    if not (corpus and kept and record["bleu"]["test"] and (hypotheses := beside(kept, HYPOTHESES)).exists()):
        return None
    found, references = text_of(hypotheses).split("\n")[:-1], corpus.references("test")
    if len(found) != len(references):
        raise LnReproError(f"{hypotheses} has {len(found)} lines, the test set {len(references)}")
    return found, references
