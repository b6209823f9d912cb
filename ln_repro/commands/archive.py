"""`ln-repro verify` and `compare`, and what the commands that read archived records share."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ln_repro.claims.arms import Arms
from ln_repro.claims.evidence import Evidence
from ln_repro.claims.judge import evidence_of
from ln_repro.commands.messages import say
from ln_repro.corpus.prepared import opened
from ln_repro.errors import LnReproError, UserError
from ln_repro.records.archive import Kept, find, read_kept, records_folder
from ln_repro.records.integrity import CHECKSUMS, HYPOTHESES, beside, text_of
from ln_repro.records.record import experiment_of
from ln_repro.runner import bleu
from ln_repro.system.paths import data_folder
from ln_repro.system.progress import progress


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


def verify_command(options: argparse.Namespace) -> int:
    """Run `verify`: check the integrity of every archived record, and recompute its BLEU from the hypotheses."""
    folder = options.records or records_folder()
    kept = read_kept(folder)
    places = sorted({path.parent for path in folder.rglob("*.json")})
    problems = [f"{place}: {CHECKSUMS} is missing; restore it" for place in places if not (place / CHECKSUMS).exists()]
    rescored = {}
    with progress("recomputing the BLEU of", len(kept.records), say, "records") as advance:
        for record in kept.records:
            rescored[record["id"]] = bleu_problem(folder, record)
            advance(1)
    problems += [*kept.problems, *(f"{find(folder, id)}: {problem}" for id, problem in rescored.items() if problem)]
    if not kept.records and not problems:
        problems = [f"{folder}: it has no records"]
    found = [*rescored.values()]
    print(f"{len(kept.runs)} records are valid; BLEU recomputed for {found.count('')}")
    print(f"not recomputed for {found.count(None)}: no hypotheses, or tokeniser or prepared corpus are not here")
    return complaints(problems)


def bleu_problem(folder: Path, record: dict[str, Any]) -> str | None:
    """Return how a record's BLEU differs from that of its hypotheses; "" if they agree, None if it is not known."""
    try:
        texts = translations(folder, record)
        if texts is None:
            return None
        computed, signature = bleu.score("detokenised", *texts, experiment_of(record), "test")
    except LnReproError as error:
        return str(error)
    recorded = record["bleu"]["test"]
    if bleu.tokeniser_in(signature) != bleu.tokeniser_in(recorded["signature"]):
        return None
    return "" if computed == recorded["score"] else f"BLEU is {recorded['score']}, its hypotheses score {computed}"


def compare_command(options: argparse.Namespace) -> int:
    """Run `compare`: test the difference in BLEU between two archived records by paired bootstrap."""
    folder = options.records or records_folder()
    records = {record["id"]: record for record in read_kept(folder).records}
    if missing := [id for id in options.pair if id not in records]:
        raise UserError(f"compare: there is no record {', '.join(missing)} in {folder} (records are ID.json)")
    first, second = (records[id] for id in options.pair)
    if first["data"]["fingerprint"] != second["data"]["fingerprint"]:
        raise UserError("compare: the two were trained on different corpora")
    for record in (first, second):
        if (place := find(folder, record["id"])) and not beside(place, HYPOTHESES).exists():
            raise UserError(f"compare: {record['id']} has no hypotheses beside its record; choose another record")
    texts = [text for record in (first, second) if (text := translations(folder, record))]
    if len(texts) < 2:
        raise UserError(f"compare: prepare the corpus first (ln-repro data prepare data={first['data']['name']})")
    (one, references), (other, _) = texts
    *scores, p_value = bleu.paired_bootstrap(one, other, references, experiment_of(first).data)
    for record, score in zip((first, second), scores, strict=True):
        print(f"{record['id']}  {record['exp']}  seed {record['axes']['seed']}  BLEU {score:.2f}")
    samples = f"{bleu.SAMPLES} paired bootstrap samples of the test set"
    print(f"p = {p_value:.4f} ({samples}; the variation between seeds is not included)")
    return 0


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
