"""`ln-repro collect`: archive the records of finished runs, with their events and scored hypotheses."""

import argparse
import gzip
from pathlib import Path
from typing import Any

from ln_repro.claims.arms import Arms, deviates
from ln_repro.corpus.locate import locked
from ln_repro.errors import UserError
from ln_repro.records.archive import Run, find, records_folder
from ln_repro.records.integrity import EVENTS, HYPOTHESES, differing, write_checksums
from ln_repro.records.run_dir import RunFolder, find_run, runs_under
from ln_repro.system.files import explained, write_atomically
from ln_repro.system.paths import CHECKOUT, runs_folder


def collect_command(options: argparse.Namespace) -> int:
    """Run `collect`: archive record, events and scored hypotheses of finished runs.

    Unfinished runs are skipped unless they are named on the command line. By default, only runs of
    registered experiments, at any rate or initialisation, are added to the committed records.
    """
    archive = options.records or records_folder()
    if not options.records and not (CHECKOUT / "pyproject.toml").is_file():
        raise UserError("collect: give --records DIR, the folder to copy the records to (this is not a checkout)")
    folders = [find_run(word, runs_folder()) for word in options.runs] or runs_under(runs_folder())
    if unfinished := [str(folder.path) for folder in folders if options.runs and folder.record is None]:
        raise UserError(f"collect: {', '.join(unfinished)}: not a finished run (it has no record.json)")
    finished = [(folder, record) for folder in folders if (record := folder.record) is not None]
    chosen, refused = finished, 0
    if not (options.runs or options.records or options.all):
        arms = Arms(archive)
        chosen = [(folder, record) for folder, record in finished if not deviates(Run(record), arms)]
    with explained(archive, "--records"):
        archive.mkdir(parents=True, exist_ok=True)
        with locked(archive):
            for folder, record in chosen:
                done = keep(folder, record, archive, options.replace)
                print(f"{folder.path}: {done}")
                refused += done.startswith("not copied")
    if not finished:
        print(f"no finished runs in {runs_folder()}")
    if left_out := len(finished) - len(chosen):
        runs = f"{left_out} run{'s' * (left_out > 1)}"
        own = "on other text, or with settings that differ from the experiment's; --all includes them"
        print(f"left out: {runs} {own}")
    if refused < len(chosen):
        print(f"the records are in {archive}")
    return 1 if refused else 0


def keep(folder: RunFolder, record: dict[str, Any], archive: Path, replace: bool) -> str:
    """Copy the files of a run, the record last, and write their checksums; return what was done, as text."""
    id = record["id"]
    target = find(archive, id) or archive / record["exp"].partition("_")[0] / f"{id}.json"
    content = (folder.path / "record.json").read_bytes()
    if target.exists() and target.read_bytes() != content and not replace:
        return f"not copied: another record of {id} exists (--replace overwrites it)"
    target.parent.mkdir(exist_ok=True)
    copies = {target.with_name(f"{id}{EVENTS}.gz"): folder.path / "events.jsonl"}
    if best := record["bleu"]["test"]:
        copies[target.with_name(f"{id}{HYPOTHESES}.gz")] = folder.hypotheses("test", best["epoch"])
    if absent := [source for source in copies.values() if not source.is_file()]:
        return f"not copied: {absent[0]} is missing"
    if name := differing(record, folder.events.read()):
        return f"not copied: {folder.path / 'events.jsonl'} is damaged, {name} of the record differs from it"
    lines = folder.hypotheses("test", best["epoch"]).read_bytes().count(b"\n") if best else 0
    if best and lines != record["data"].get("test_pairs", lines):
        return f"not copied: {folder.hypotheses('test', best['epoch'])} is damaged, it has {lines} lines"
    for copy, source in copies.items():
        write_atomically(copy, gzip.compress(source.read_bytes(), mtime=0))
    write_atomically(target, content)
    write_checksums(target.parent, [target.name, *(copy.name for copy in copies)])
    return f"copied as {id}"
