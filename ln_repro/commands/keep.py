"""`ln-repro collect`, `verify` and `compare`: archive the records of finished runs, check and compare them."""

import argparse
import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ln_repro.claims.deviations import tried
from ln_repro.commands.archive import arms_beside, complaints
from ln_repro.corpus.locate import locked
from ln_repro.corpus.prepared import Prepared, opened
from ln_repro.errors import LnReproError, UserError
from ln_repro.records.archive import Run, corpora_file, find, read_corpora, read_kept, records_folder
from ln_repro.records.integrity import CHECKSUMS, EVENTS, HYPOTHESES, beside, text_of, write_checksums
from ln_repro.records.record import experiment_of
from ln_repro.records.run_dir import RunFolder, runs_under
from ln_repro.runner import bleu
from ln_repro.system.files import explained, write_atomically
from ln_repro.system.paths import CHECKOUT, data_folder, runs_folder


def collect_command(options: argparse.Namespace) -> int:
    """Run `collect`: archive record, events and scored hypotheses of finished runs, and the entropies of corpora.

    Unfinished runs are skipped unless they are named on the command line. The committed records only get runs of
    registered experiments, at any rate or initialisation, unless others are asked for.
    """
    archive = options.records or records_folder()
    if not options.records and not (CHECKOUT / "pyproject.toml").is_file():
        raise UserError("collect: give --records DIR, the folder to copy the records to (this is not a checkout)")
    folders = [RunFolder(path) for path in options.runs] or runs_under(runs_folder())
    if unfinished := [str(folder.path) for folder in folders if options.runs and folder.record is None]:
        raise UserError(f"collect: {', '.join(unfinished)}: not a finished run (it has no record.json)")
    finished = [(folder, record) for folder in folders if (record := folder.record) is not None]
    chosen = finished
    if not (options.runs or options.records or options.all):
        arms = arms_beside(archive)
        chosen = [(folder, record) for folder, record in finished if not tried(Run(record), arms)]
    with explained(archive, "--records"):
        archive.mkdir(parents=True, exist_ok=True)
        with locked(archive):
            for folder, record in chosen:
                print(f"{folder.path}: {keep(folder, record, archive, options.replace)}")
            keep_corpora(archive)
    if left_out := len(finished) - len(chosen):
        print(f"left out: {left_out} that differ from the experiment of their name (--all includes them)")
    print(f"the records are in {archive}")
    return 0


def keep(folder: RunFolder, record: dict[str, Any], archive: Path, replace: bool) -> str:
    """Copy the files of a run, the record last, and write their checksums; return what was done, as text."""
    id = record["id"]
    target = find(archive, id) or archive / record["exp"].partition("_")[0] / f"{id}.json"
    content = (folder.path / "record.json").read_bytes()
    if target.exists() and target.read_bytes() != content and not replace:
        return f"not kept: another record of {id} exists (--replace overwrites it)"
    target.parent.mkdir(exist_ok=True)
    sources = {EVENTS: folder.path / "events.jsonl"}
    if best := record["bleu"]["test"]:
        sources[HYPOTHESES] = folder.hypotheses("test", best["epoch"])
    copies = [target.with_name(f"{id}{ending}.gz") for ending in sources]
    for copy, source in zip(copies, sources.values(), strict=True):
        write_atomically(copy, gzip.compress(source.read_bytes(), mtime=0))
    write_atomically(target, content)
    write_checksums(target.parent, [target.name, *(copy.name for copy in copies)])
    return f"kept as {id}"


def keep_corpora(archive: Path) -> None:
    """Write the entropies of all archived records' corpora; entries of corpora that are not prepared here are kept."""
    known = read_corpora(archive)
    needed = {record["data"]["fingerprint"]: record["data"] for record in read_kept(archive).records}
    for fingerprint, data in needed.items():
        corpus = prepared(data)
        if corpus and corpus.entropy:
            entropy = {key: corpus.entropy[key] for key in ("unigram_bits", "source_blind_bits", "order")}
            known[fingerprint] = {"name": corpus.name, **entropy}
        elif not corpus and fingerprint not in known:
            advice = f"run `ln-repro data prepare data={data['name']}`, then collect again"
            print(f"{corpora_file(archive)}: {data['name']} is not prepared here and left out; {advice}")
    if known:
        write_atomically(corpora_file(archive), json.dumps(known, indent=1, sort_keys=True) + "\n")


def verify_command(options: argparse.Namespace) -> int:
    """Run `verify`: check the integrity of every archived record, and recompute its BLEU from the hypotheses."""
    folder = options.records or records_folder()
    kept = read_kept(folder)
    places = sorted({path.parent for path in folder.rglob("*.json")})
    problems = [f"{place}: {CHECKSUMS} is missing; restore it" for place in places if not (place / CHECKSUMS).exists()]
    rescored = {record["id"]: bleu_problem(folder, record) for record in kept.records}
    problems += [*kept.problems, *(f"{find(folder, id)}: {problem}" for id, problem in rescored.items() if problem)]
    scored = sum(problem == "" for problem in rescored.values())
    print(f"{len(kept.runs)} records are sound; BLEU recomputed for {scored}")
    print(f"not recomputed for {len(kept.runs) - scored}: no hypotheses, or the corpus is not prepared here")
    return complaints(problems)


def compare_command(options: argparse.Namespace) -> int:
    """Run `compare`: test the difference in BLEU between two archived records by paired bootstrap."""
    folder = options.records or records_folder()
    records = {record["id"]: record for record in read_kept(folder).records}
    if missing := [id for id in options.ids if id not in records]:
        raise UserError(f"compare: there is no record {', '.join(missing)} in {folder} (ids are in its file names)")
    first, second = (records[id] for id in options.ids)
    if first["data"]["fingerprint"] != second["data"]["fingerprint"]:
        raise UserError("compare: the two were trained on different corpora")
    texts = [translated(folder, record) for record in (first, second)]
    if not all(texts):
        advice = f"`ln-repro data prepare data={first['data']['name']}`"
        raise UserError(f"compare: needs the hypotheses of both records and their corpus, prepared ({advice})")
    (one, references), (other, _) = (text for text in texts if text)
    *scores, p_value = bleu.paired_bootstrap(one, other, references, first["experiment"]["data"]["lowercase"])
    for record, score in zip((first, second), scores, strict=True):
        print(f"{record['id']}  {record['exp']}  seed {record['axes']['seed']}  BLEU {score:.2f}")
    print(f"p = {p_value:.4f} ({bleu.SAMPLES} paired bootstrap samples of the test set; seeds differ by more)")
    return 0


def prepared(data: Mapping[str, Any]) -> Prepared | None:
    """Return the corpus described by a record's ``data``; None if it is not prepared on this machine."""
    short = f"{data['name']}-{data['fingerprint'].removeprefix('sha256:')[:12]}"
    return opened(data_folder() / "prepared" / short, data["fingerprint"])


def translated(folder: Path, record: dict[str, Any]) -> tuple[list[str], list[str]] | None:
    """Return the hypotheses of a record and their references; None if either is not available."""
    corpus, kept = prepared(record["data"]), find(folder, record["id"])
    if corpus is None or kept is None or not (hypotheses := beside(kept, HYPOTHESES)).exists():
        return None
    return text_of(hypotheses).split("\n")[:-1], corpus.references("test")


def bleu_problem(folder: Path, record: dict[str, Any]) -> str | None:
    """Compare a record's BLEU with that of its hypotheses.

    Returns:
        The problem, "" if the two agree, or None if BLEU cannot be recomputed.
    """
    try:
        texts = translated(folder, record)
        if texts is None:
            return None
        computed, _ = bleu.score("detokenised", *texts, experiment_of(record), "test")
    except LnReproError as error:
        return str(error)
    recorded = record["bleu"]["test"]["score"]
    return "" if computed == recorded else f"BLEU is {recorded}, its hypotheses score {computed}"
