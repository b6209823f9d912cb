"""`ln-repro verify`: check every archived record, and recompute its BLEU from the hypotheses."""

import argparse
from pathlib import Path
from typing import Any

from ln_repro.commands.archive import complaints, translations
from ln_repro.errors import LnReproError
from ln_repro.records.archive import find, read_kept, records_folder
from ln_repro.records.integrity import CHECKSUMS
from ln_repro.records.record import experiment_of
from ln_repro.runner import bleu


def verify_command(options: argparse.Namespace) -> int:
    """Run `verify`: check the integrity of every archived record, and recompute its BLEU from the hypotheses."""
    folder = options.records or records_folder()
    kept = read_kept(folder)
    places = sorted({path.parent for path in folder.rglob("*.json")})
    problems = [f"{place}: {CHECKSUMS} is missing; restore it" for place in places if not (place / CHECKSUMS).exists()]
    rescored = {record["id"]: bleu_problem(folder, record) for record in kept.records}
    problems += [*kept.problems, *(f"{find(folder, id)}: {problem}" for id, problem in rescored.items() if problem)]
    if not kept.records and not problems:
        problems = [f"{folder}: it has no records"]
    found = [*rescored.values()]
    print(f"{len(kept.runs)} records are sound; BLEU recomputed for {found.count('')}")
    print(f"not recomputed for {found.count(None)}: no hypotheses, or the corpus is not prepared here")
    return complaints(problems)


def bleu_problem(folder: Path, record: dict[str, Any]) -> str | None:
    """Compare a record's BLEU with that of its hypotheses.

    Returns:
        The problem, "" if the two agree, or None if BLEU cannot be recomputed.
    """
    try:
        texts = translations(folder, record)
        if texts is None:
            return None
        computed, _ = bleu.score("detokenised", *texts, experiment_of(record), "test")
    except LnReproError as error:
        return str(error)
    recorded = record["bleu"]["test"]["score"]
    return "" if computed == recorded else f"BLEU is {recorded}, its hypotheses score {computed}"
