"""`ln-repro reproduce`: a committed record run again from its own settings, and compared."""

import argparse
import difflib
from typing import Any

from ln_repro.errors import UserError
from ln_repro.verbs.messages import say

FREE = ("data.source", "data.train", "data.valid", "data.test", "data.checksum", "start", "rerun", "tracker", "paths")
"""What a record does not hold, so that it may be given: these, and what is below them."""
CUTS = ("train.max_epoch", "train.max_update")
FOLDER = "reproduced"
"""Below `paths.runs`: the run that the record was made of may lie there itself."""


def reproduce_verb(options: argparse.Namespace) -> int:
    """`reproduce`: exit 0 where the two agree within the interval of the record's arm, 1 where they differ."""
    from ln_repro.engine.device import settle
    from ln_repro.experiment import build
    from ln_repro.report.evidence import Run
    from ln_repro.report.records import read_kept, records_folder
    from ln_repro.report.reproduction import DIFFERENT, compare, differences
    from ln_repro.report.tables import markdown
    from ln_repro.run import run
    from ln_repro.store import RunFolder

    folder = options.records or records_folder()
    kept = read_kept(folder)
    found = {one.record["id"]: one for one in kept.runs}
    if options.id not in found:
        unsound = [line for line in kept.problems if f"{options.id}." in line]
        nearest = difflib.get_close_matches(options.id, found, n=3, cutoff=0)
        raise UserError(
            f"reproduce: {'; '.join(unsound)}" if unsound else
            f"reproduce: there is no record {options.id!r} in {folder}; nearest: {', '.join(nearest) or 'none'}"
        )  # fmt: skip
    theirs = found[options.id]
    folder = RunFolder(run(settle(build(again(theirs.record, options.overrides))), say))
    assert folder.record
    ours = Run(folder.record, folder.events.read())
    if ours.record["updates"] < theirs.record["updates"]:
        print(f"only what both have is compared: {ours.record['updates']} of {theirs.record['updates']} updates")
    print(*differences(theirs.record, ours.record), sep="\n")
    result = compare(theirs, ours, kept.runs)
    name = f"{options.id}: {ours.record['exp']}, seed {ours.record['axes']['seed']} (bits per token; BLEU on tokens)"
    print(f"\n{markdown(name, result.table)}\n{options.id}: {result.grade}: {result.reason}")
    return int(result.grade == DIFFERENT)


def again(record: dict[str, Any], overrides: list[str]) -> dict[str, Any]:
    """Return the settings of a record, with what the command line says of where things lie and when to stop.

    Raises:
        UserError: it says something else, or what would make the run another one.
    """
    from ln_repro.compose import compose, experiments
    from ln_repro.report.reproduction import settings_of

    keys = [override.partition("=")[0] for override in overrides]
    if strange := [key for key in keys if key not in CUTS and not any(f"{key}.".startswith(f"{one}.") for one in FREE)]:
        raise UserError(f"reproduce: {', '.join(strange)}: is the record's own; free are {', '.join((*FREE, *CUTS))}")
    tracker = [] if any(key == "tracker" for key in keys) else ["tracker=none"]
    asked = compose([f"exp={next(iter(experiments()))}", *tracker, *overrides])
    settings = settings_of(record)
    for key in ("tracker", "paths", *keys):
        section, _, name = key.partition(".")
        settings[section] = {**settings[section], name: asked[section][name]} if name and section in settings else asked[section]
    settings["paths"] = {**settings["paths"], "runs": f"{settings['paths']['runs']}/{FOLDER}"}
    for key in (key for key in keys if key in CUTS):
        name = key.partition(".")[2]
        longest = record["experiment"]["train"][name]
        if settings["train"][name] is None or longest is not None and settings["train"][name] > longest:
            raise UserError(f"{key}: can only cut the run short, to at most the record's {longest}")
        if settings["schedule"]["decay"] == "linear":
            raise UserError(f"{key}: the record's rate falls linearly to the end of training; a shorter run is another one")
        settings["eval"] = {**settings["eval"], "average": 0}  # of the last epochs, which are cut off
    return settings
