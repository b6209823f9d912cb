"""`ln-repro reproduce`: repeat the run of a committed record with the same settings, and compare the two."""

import argparse
import textwrap
from dataclasses import replace

from ln_repro.commands.messages import say
from ln_repro.corpus.prepare import fingerprint
from ln_repro.engine.process import follow_rank_zero
from ln_repro.experiment.precision import resolve_precision
from ln_repro.records.archive import EVENTS, Run, archived_file, read_kept, records_folder
from ln_repro.records.events import valid_events
from ln_repro.records.run_dir import RunFolder
from ln_repro.report.reproduction import DIFFERENT, check_length, compare, differences
from ln_repro.report.tables import markdown
from ln_repro.runner.again import again
from ln_repro.runner.run import run
from ln_repro.system.distributed import this_rank


def reproduce_command(options: argparse.Namespace) -> int:
    """Run `reproduce`; exit with 0 if the two agree within the interval of the record's arm, with 1 if they differ."""
    if not this_rank().leads:
        follow_rank_zero()
    folder = options.records or records_folder()
    kept = read_kept(folder)
    theirs = kept.run(options.id, folder)
    experiment = resolve_precision(again(theirs.record, options.overrides))
    if fingerprint(experiment.data, experiment.paths.data) not in (None, theirs.record.data.fingerprint):
        say(f"{options.id} was run on other text: the two can hardly agree")
    if text := archived_file(folder, theirs.record, EVENTS):
        theirs = replace(theirs, events=valid_events(text))
    check_length(theirs, experiment.train.max_update)
    new = RunFolder(run(experiment, say))
    assert new.record
    ours = Run(new.record, new.events.read())
    print(f"{ours.record.exp}, seed {ours.record.axes.seed}, run again in {new.path}")
    if len(updates := {ours.record.updates, theirs.record.updates}) > 1:
        print(f"only what both have is compared: {min(updates)} of {max(updates)} updates")
    print(*differences(theirs.record, ours.record), sep="\n")
    result = compare(theirs, ours, kept.runs)
    print(f"\n{markdown(f'{options.id} (losses in bits per token, BLEU on tokens)', result.table)}")
    print(textwrap.fill(f"{options.id}: {result.grade}: {result.reason}", 80))
    return int(result.grade == DIFFERENT)
