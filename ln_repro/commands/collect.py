"""`ln-repro collect`: archive the records of finished runs, with their events and scored hypotheses."""

import argparse
from collections.abc import Mapping

from ln_repro.claims.arms import Arms, deviates
from ln_repro.commands.messages import say
from ln_repro.corpus.locate import locked
from ln_repro.corpus.prepare import prepare
from ln_repro.errors import LnReproError, UserError
from ln_repro.experiment.name import Name
from ln_repro.records.archive import Run, add, files_of, intact_archives, read_kept, records_folder, stopped_folder
from ln_repro.records.provenance import PACKAGES
from ln_repro.records.record import Record, record_of
from ln_repro.records.run_dir import RunFolder, find_run, runs_under
from ln_repro.runner.run import facts
from ln_repro.system.files import explained
from ln_repro.system.paths import CHECKOUT, runs_folder
from ln_repro.system.progress import plural


def collect_command(options: argparse.Namespace) -> int:
    """Run `collect`: archive record, events and scored hypotheses of finished runs.

    By default, only runs of registered experiments, at any rate or initialisation, are added to the committed records.
    With ``--stopped``, the named runs, which did not end and will not go on, are archived in a folder of their own.
    """
    archive = options.records or records_folder()
    if options.stopped:
        archive = stopped_folder(archive)
    if not options.records and not (CHECKOUT / "pyproject.toml").is_file():
        raise UserError("collect: give --records DIR, the folder to copy the records to (this is not a checkout)")
    ended = _ended(options)
    arms = Arms(archive) if not (options.runs or options.records or options.all) else None
    left_out = 0
    with explained(archive, "--records"):
        archive.mkdir(parents=True, exist_ok=True)
        with locked(archive):
            known = {record.id: record for record in read_kept(archive).records}
            intact = intact_archives(archive)
            new: dict[str, dict[RunFolder, tuple[Record, Mapping[str, bytes]]]] = {}
            done: dict[RunFolder, str] = {}
            refused: dict[RunFolder, LnReproError] = {}
            for folder, record in ended.items():
                try:
                    if arms and deviates(Run(record), arms):
                        left_out += 1
                        continue
                    kept, files = files_of(folder, record)
                    there = known.get(kept.id)
                    same = there is not None and kept == there.model_copy(update={"archive": ""})
                    if there and same and there.archive in intact:
                        done[folder] = f"{kept.id} is there already"
                    elif there and not same and not options.replace:
                        raise LnReproError(f"another record of {kept.id} exists (--replace overwrites it)")
                    else:
                        done[folder] = f"copied as {kept.id}"
                        new.setdefault(Name.of(kept.exp).setting, {})[folder] = kept, files
                        known[kept.id] = kept  # another run in this call may have the same id
                except LnReproError as error:
                    refused[folder] = error
            for setting, runs in sorted(new.items()):
                try:
                    add(archive, setting, [*runs.values()])
                except LnReproError as error:
                    refused |= dict.fromkeys(runs, error)
            for folder, problem in refused.items():
                done.pop(folder, None)
                say(f"{folder.path}: not copied: {problem}")
            for folder, words in done.items():
                print(f"{folder.path}: {words}")
    if not ended:
        print(f"no finished runs in {runs_folder()}")
    if left_out:
        reason = "on other text, or with settings that differ from the experiment's; --all includes them"
        print(f"left out: {plural(left_out, 'run')} {reason}")
    if done:
        print(f"the records are in {archive}")
    return 1 if refused else 0


def _ended(options: argparse.Namespace) -> dict[RunFolder, Record]:
    """Return the runs that have ended, or were stopped, with their records."""
    if options.stopped and not options.runs:
        raise UserError("collect: --stopped needs the runs, because others may go on")
    folders = [find_run(word, runs_folder()) for word in options.runs] or runs_under(runs_folder())
    records = {folder: stopped(folder) if options.stopped else folder.record for folder in folders}
    if unfinished := [str(folder.path) for folder, record in records.items() if options.runs and record is None]:
        raise UserError(f"collect: {', '.join(unfinished)}: not a finished run (it has no record.json)")
    return {folder: record for folder, record in records.items() if record is not None}


def stopped(folder: RunFolder) -> Record:
    """Return the record of a run that did not end, from what it has."""
    if folder.record:
        raise UserError(f"collect: {folder.path} has ended; leave out --stopped")
    with folder.lock():  # nothing else runs it
        run_id, experiment = folder.read_experiment()
        if not (events := folder.events.read()):
            raise UserError(f"collect: {folder.path}: training has not begun; leave it out")
        corpus = prepare(experiment.data, experiment.paths.data, say)
        if experiment.id(corpus.fingerprint) != run_id:
            raise UserError(f"collect: {folder.path}: its corpus has changed since; restore the text")
        record = record_of(experiment, run_id, facts(experiment, corpus), events, stopped=True)
        if record.status != "stopped":
            raise UserError(f"collect: {folder.path}: training has ended; the run's own command finishes its record")
    unknown = dict.fromkeys(("python", *PACKAGES))  # this may be another machine
    return record.model_copy(update={"environment": {**record.environment, **unknown}})
