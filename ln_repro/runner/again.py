"""The experiment that repeats the run of a record."""

from operator import attrgetter

from ln_repro.errors import UserError
from ln_repro.experiment.compose import compose, experiments, values_of
from ln_repro.experiment.settings import Experiment, build
from ln_repro.records.record import Record
from ln_repro.runner.pretrained import with_pretrained
from ln_repro.system.files import Json
from ln_repro.system.paths import expanded

FREE = (
    "data.source", "data.train", "data.valid", "data.test", "data.checksum", "norm.file", "start", "rerun", "tracker",
    "paths",
)  # fmt: skip
"""Settings that a record does not contain and that may be given on the command line."""
CUTS = ("train.max_epoch", "train.max_update")
FOLDER = "reproduced"  # subfolder of `paths.runs`, which may also contain the original run


def again(record: Record, overrides: list[str]) -> Experiment:
    """Return the experiment of a record, with the paths and limits that the command line gives.

    Pre-trained weights are those of a run in `paths.runs`; the new run is in `FOLDER` below it.
    """
    keys = [override.partition("=")[0] for override in overrides]
    if fixed := [key for key in keys if not {key, key.partition(".")[0]} & {*FREE, *CUTS}]:
        raise UserError(f"reproduce: {', '.join(fixed)}: fixed by the record; only {', '.join((*FREE, *CUTS))} are not")
    settings = record.experiment.model_dump(mode="json")
    overrides = with_checked_scheme(settings, record.id, overrides)
    tracker = [] if "tracker" in keys else ["tracker=none"]  # the original run may be tracked under the same id
    composed = compose([f"exp={next(iter(experiments()))}", *tracker, *overrides])
    settings["stop_on_divergence"] = False  # the rule may have changed since, and end the run too early
    if record.environment["device"] == "cpu":
        settings["train"]["device"] = "cpu"
    replaced = ["tracker", "paths", *(key for key in ("start", "rerun") if key in keys)]
    settings |= {key: composed[key] for key in replaced}
    if record.settings.get("start") and not settings["start"]:
        raise UserError("start: the record's run began with the weights of another one; give start=RUN@EPOCH")
    for section, name in (key.split(".") for key in keys if key.startswith(("data.", "train."))):
        settings[section][name] = composed[section][name]
    cuts = [key for key in CUTS if key in keys]
    if cuts:  # epochs to average or to decode may be cut off
        settings["eval"] |= {"average": 0, "epochs": None}
    experiment = build(settings)  # refuses values of the wrong type
    for key in cuts:
        length = attrgetter(key)(experiment)
        whole = record.updates if key == "train.max_update" else len(record.epochs)
        if whole == 0 and key == "train.max_epoch":
            raise UserError(f"{key}: the run ended before its first epoch did; cut it with train.max_update")
        if length is None or length > whole:
            raise UserError(f"{key}: can only cut the run short, to {whole} at most")
        if settings["schedule"]["decay"] == "linear":
            raise UserError(f"{key}: cannot be changed: the learning rate falls linearly to the end of training")
    experiment = with_pretrained(experiment)
    paths = experiment.paths.model_copy(update={"runs": experiment.paths.runs / FOLDER})
    return experiment.model_copy(update={"paths": paths})


def with_checked_scheme(settings: Json, id: str, overrides: list[str]) -> list[str]:
    """Return the overrides without ``norm.file``, after a check that this file contains the record's own scheme.

    The record may be somebody else's, so its code is executed only if the user has it in a file.
    """
    file = values_of(overrides).get("norm.file")
    if file and not expanded(file).is_file():
        raise UserError(f"norm.file: {file}: no such file")
    text = expanded(file).read_text(encoding="utf-8", errors="replace") if file else None
    scheme = settings["norm_file"]
    if scheme is None and file:
        raise UserError("norm.file: the record has no scheme of its own; leave it out")
    if scheme and text != scheme["text"]:
        what = f"{file} is not" if file else "needs"
        raise UserError(
            f"norm.file: {what} the code of {id}, a scheme of its own whose code would be executed; read it "
            "(settings.norm_file.text in its record), save it to a file and give norm.file=FILE"
        )
    return [override for override in overrides if not override.startswith("norm.file=")]
