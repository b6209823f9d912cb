"""`ln-repro reproduce`: a committed record run again from its own settings, and compared."""

import argparse
import difflib
import textwrap
from typing import Any

from ln_repro.commands.messages import say
from ln_repro.errors import UserError

FREE = ("data.source", "data.train", "data.valid", "data.test", "data.checksum", "start", "rerun", "tracker", "paths")
"""What a record does not hold, and the command line therefore says."""
CUTS = ("train.max_epoch", "train.max_update")
FOLDER = "reproduced"
"""Below `paths.runs`, where the run that the record was made of may lie itself."""


def reproduce_command(options: argparse.Namespace) -> int:
    """`reproduce`: exit 0 where the two agree within the interval of the record's arm, 1 where they differ."""
    from ln_repro.engine.device import resolve_precision
    from ln_repro.experiment.settings import build
    from ln_repro.records.archive import Run, read_kept, records_folder
    from ln_repro.records.run_dir import RunFolder
    from ln_repro.report.reproduction import DIFFERENT, compare, differences
    from ln_repro.report.tables import markdown
    from ln_repro.runner.run import run

    folder = options.records or records_folder()
    kept = read_kept(folder)
    found = {one.record["id"]: one for one in kept.runs}
    if options.id not in found:
        nearest = ", ".join(difflib.get_close_matches(options.id, found, n=3, cutoff=0)) or "none"
        unsound = next((line for line in kept.problems if f"{options.id}." in line), None)
        raise UserError(f"reproduce: {unsound or f'there is no record {options.id!r} in {folder}; nearest: {nearest}'}")
    theirs = found[options.id]
    place = RunFolder(run(resolve_precision(build(again(theirs.record, options.overrides))), say))
    assert place.record
    ours = Run(place.record, place.events.read())
    result = compare(theirs, ours, kept.runs)
    print(f"{ours.record['exp']}, seed {ours.record['axes']['seed']}, run again in {place.path}")
    if len(updates := {ours.record["updates"], theirs.record["updates"]}) > 1:
        print(f"only what both have is compared: {min(updates)} of {max(updates)} updates")
    print(*differences(theirs.record, ours.record), sep="\n")
    print(f"\n{markdown(f'{options.id} (losses in bits per token, BLEU on tokens)', result.table)}")
    print(textwrap.fill(f"{options.id}: {result.grade}: {result.reason}", 80))
    return int(result.grade == DIFFERENT)


def again(record: dict[str, Any], overrides: list[str]) -> dict[str, Any]:
    """Return a record's settings, with what the command line says of where things lie and when to stop.

    Raises:
        UserError: it says something else, or what would make the run another one.
    """
    from ln_repro.experiment.compose import compose, experiments
    from ln_repro.records.record import experiment_of

    keys = [override.partition("=")[0] for override in overrides]
    if strange := [key for key in keys if not {key, key.partition(".")[0]} & {*FREE, *CUTS}]:
        raise UserError(f"reproduce: {', '.join(strange)}: the record has its own; give {', '.join((*FREE, *CUTS))}")
    tracker = [] if "tracker" in keys else ["tracker=none"]  # the record's own run may be there under the same id
    asked = compose([f"exp={next(iter(experiments()))}", *tracker, *overrides])
    settings = experiment_of(record).model_dump(mode="json")
    settings["stop_on_divergence"] = False  # the updates that were taken are taken again, whatever the rule says today
    if record["environment"]["device"] == "cpu":
        settings["train"]["device"] = "cpu"
    settings |= {key: asked[key] for key in ("tracker", "paths", *({"start", "rerun"} & {*keys}))}
    settings["paths"]["runs"] += f"/{FOLDER}"
    for section, name in (key.split(".") for key in keys if key.startswith(("data.", "train."))):
        settings[section] = {**settings[section], name: asked[section][name]}
    for key in {*CUTS} & {*keys}:
        name = key.partition(".")[2]
        length, whole = settings["train"][name], record["experiment"]["train"][name]
        if length is None or (whole is not None and length > whole):
            raise UserError(f"{key}: can only cut the run short, to {whole} at most")
        if settings["schedule"]["decay"] == "linear":
            raise UserError(f"{key}: the rate falls linearly to the end of training; a shorter run is another one")
        settings["eval"] = {**settings["eval"], "average": 0}  # of the last epochs, which may be cut off
    return settings
