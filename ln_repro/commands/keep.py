"""`ln-repro collect` and `verify`: records that are kept, and whether they can be trusted."""

import argparse
import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ln_repro.commands.report import complaints
from ln_repro.errors import UserError
from ln_repro.system.paths import data_folder, runs_folder


def collect_command(options: argparse.Namespace) -> int:
    """`collect`: copy record, events and the scored hypotheses of finished runs, others are passed over; and note the
    entropies of all kept records' corpora."""
    from ln_repro.records.archive import records_folder
    from ln_repro.records.run_dir import RunFolder, runs_under
    from ln_repro.system.files import explained

    place = options.records or records_folder()
    runs = runs_folder()
    folders = [RunFolder(path) for path in options.runs] or runs_under(runs)
    if unfinished := [str(folder.path) for folder in folders if options.runs and folder.record is None]:
        raise UserError(f"collect: {', '.join(unfinished)}: no finished run (it has no record.json)")
    with explained(place, "--records"):
        place.mkdir(parents=True, exist_ok=True)
        for folder in folders:
            if folder.record is not None:
                print(f"{folder.path}: {keep(folder, folder.record, place, options.replace)}")
        keep_corpora(place)
    return 0


def keep(folder: Any, record: dict[str, Any], place: Path, replace: bool) -> str:
    """Copy a run's files, the record last, and note their checksums; return what was done, in words."""
    from ln_repro.records.archive import find
    from ln_repro.records.integrity import EVENTS, HYPOTHESES, write_checksums
    from ln_repro.system.files import write_atomically

    id, target = record["id"], find(place, record["id"])
    target = target or place / record["exp"].partition("_")[0] / f"{id}.json"
    whole = (folder.path / "record.json").read_bytes()
    if target.exists() and target.read_bytes() != whole and not replace:
        return f"not kept: another record of {id} is there (--replace takes its place)"
    target.parent.mkdir(exist_ok=True)
    sources = {EVENTS: folder.path / "events.jsonl"}
    if best := record["bleu"]["test"]:
        sources[HYPOTHESES] = folder.hypotheses("test", best["epoch"])
    copies = [target.with_name(f"{id}{ending}.gz") for ending in sources]
    for copy, source in zip(copies, sources.values(), strict=True):
        write_atomically(copy, gzip.compress(source.read_bytes(), mtime=0))
    write_atomically(target, whole)
    write_checksums(target.parent, [target.name, *(copy.name for copy in copies)])
    return f"kept as {id}"


def keep_corpora(place: Path) -> None:
    """Write the entropies of the kept records' corpora beside the folder; of one that is not here, old entries stay."""
    from ln_repro.records.archive import corpora_file, read_corpora, read_kept
    from ln_repro.system.files import write_atomically

    known = read_corpora(place)
    needed = {record["data"]["fingerprint"]: record["data"] for record in read_kept(place).records}
    for fingerprint, data in needed.items():
        corpus = prepared(data)
        if corpus and corpus.entropy:
            entropy = {key: corpus.entropy[key] for key in ("unigram_bits", "source_blind_bits", "order")}
            known[fingerprint] = {"name": corpus.name, **entropy}
        elif not corpus and fingerprint not in known:
            again = f"`ln-repro data prepare data={data['name']}`, then collect again"
            print(f"{corpora_file(place)}: {data['name']} is not prepared here and left out; {again}")
    if known:
        write_atomically(corpora_file(place), json.dumps(known, indent=1, sort_keys=True) + "\n")


def verify_command(options: argparse.Namespace) -> int:
    """`verify`: every record as `ln-repro.report.integrity` sees it, and its BLEU from the hypotheses."""
    from ln_repro.records.archive import read_kept, records_folder

    folder = options.records or records_folder()
    kept = read_kept(folder)
    again = {record["id"]: scored_again(folder, record) for record in kept.records}
    problems = [*kept.problems, *(f"{folder / id}.json: {found}" for id, found in again.items() if found)]
    scored = sum(found == "" for found in again.values())
    print(f"{len(kept.runs)} records are sound; BLEU computed again for {scored}")
    print(f"{len(kept.runs) - scored} without hypotheses, or whose corpus is not prepared here")
    return complaints(problems)


def compare_command(options: argparse.Namespace) -> int:
    """`compare`: two kept records, by the paired bootstrap on what they translated."""
    from ln_repro.records.archive import read_kept, records_folder
    from ln_repro.runner.bleu import paired_bootstrap

    folder = options.records or records_folder()
    records = {record["id"]: record for record in read_kept(folder).records}
    if missing := [id for id in options.ids if id not in records]:
        raise UserError(f"compare: there is no record {', '.join(missing)} in {folder} (ids are in its file names)")
    first, second = (records[id] for id in options.ids)
    if first["data"]["fingerprint"] != second["data"]["fingerprint"]:
        raise UserError("compare: the two were trained on different corpora")
    texts = [translated(folder, record) for record in (first, second)]
    if not all(texts):
        raise UserError(f"compare: hypotheses and `ln-repro data prepare data={first['data']['name']}` are needed")
    (one, references), (other, _) = (text for text in texts if text)
    found = paired_bootstrap(one, other, references, first["experiment"]["data"]["lowercase"])
    for record, score in ((first, found.first), (second, found.second)):
        print(f"{record['id']}  {record['exp']}  seed {record['axes']['seed']}  BLEU {score:.2f}")
    print(f"p = {found.p_value:.4f} ({found.samples} paired bootstrap samples of the test set; seeds differ by more)")
    return 0


def prepared(data: Mapping[str, Any]) -> Any:
    """Return the prepared corpus of a record's ``data``; None where it is not here."""
    from ln_repro.corpus.prepared import opened

    short = f"{data['name']}-{data['fingerprint'].removeprefix('sha256:')[:12]}"
    return opened(data_folder() / "prepared" / short, data["fingerprint"])


def translated(folder: Path, record: dict[str, Any]) -> tuple[list[str], list[str]] | None:
    """Return a record's hypotheses and their references; None where either is not here."""
    from ln_repro.records.archive import find
    from ln_repro.records.integrity import HYPOTHESES, beside, text_of

    corpus, kept = prepared(record["data"]), find(folder, record["id"])
    if corpus is None or kept is None or not (hypotheses := beside(kept, HYPOTHESES)).exists():
        return None
    return text_of(hypotheses).split("\n")[:-1], corpus.references("test")


def scored_again(folder: Path, record: dict[str, Any]) -> str | None:
    """Return what is wrong with a record's BLEU, nothing (``""``) if it comes out again, None if it cannot be told."""
    from ln_repro.records.record import experiment_of
    from ln_repro.runner.bleu import sacre_bleu

    texts = translated(folder, record)
    if texts is None:
        return None
    found, kept = sacre_bleu(*texts, experiment_of(record), "test"), record["bleu"]["test"]["score"]
    return "" if found.score == kept else f"BLEU is {kept}, its hypotheses score {found.score}"
