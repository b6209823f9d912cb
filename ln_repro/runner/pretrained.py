"""Find and check the pre-trained weights that a run starts from."""

from operator import attrgetter
from pathlib import Path

from ln_repro.engine.checkpoints import Checkpoint, Checkpoints
from ln_repro.errors import UserError
from ln_repro.experiment.settings import Experiment
from ln_repro.records.record import Record
from ln_repro.records.run_dir import RunFolder, find_run
from ln_repro.system.files import sha256
from ln_repro.system.paths import expanded

HOW = "give start=RUN@EPOCH with a finished run of task=masked_lm"
SAME = ("norm", "model.layers", "model.width", "model.ffn", "model.heads")
"""Settings that must be the same in both runs."""


def with_pretrained(experiment: Experiment) -> Experiment:
    """Return the experiment with all fields of ``start``, and with the data preparation of the pre-training run."""
    start = experiment.start
    if start is None or start.path:  # none, or found already
        return experiment
    folder, weights = _find_weights(start.given, experiment.paths.runs)
    record = folder.record
    if record is None:
        raise UserError(f"start: {folder.path} is not a finished run; {HOW}")
    if problem := _incompatibility(experiment, record):
        raise UserError(f"start: {problem}")
    path = (folder.checkpoints / weights.file).absolute()
    if not path.is_file() or sha256(path) != weights.sha256:
        raise UserError(f"start: {path} is missing or does not match its checksum; give another epoch")
    fingerprint, text = record.data.fingerprint, record.experiment.data
    resolved = {"path": path, "sha256": weights.sha256, "run": record.id, "exp": record.exp, "data": fingerprint,
                "epoch": weights.epoch, "update": weights.update}  # fmt: skip
    prepared = {"vocabulary": fingerprint, "lowercase": text.lowercase, "bpe_merges": text.bpe_merges}
    return experiment.model_copy(
        update={"start": start.model_copy(update=resolved), "data": experiment.data.model_copy(update=prepared)}
    )


def _find_weights(start: str, runs: Path) -> tuple[RunFolder, Checkpoint]:
    """Return the run and the weights that the user has given as RUN@EPOCH."""
    run, _, epoch = start.rpartition("@")
    if not (run and epoch.isdecimal()):
        raise UserError(f"start: expected RUN@EPOCH, got {start!r}; {HOW}")
    try:
        folder = find_run(str(expanded(run)), runs)
    except UserError as error:
        raise UserError(f"start: {error}") from None
    weights = Checkpoints(folder.checkpoints).weights()
    if int(epoch) not in weights:
        epochs = ", ".join(map(str, sorted(weights))) or "none"
        raise UserError(f"start: {folder.path} has no weights of epoch {epoch}; it has those of {epochs}")
    return folder, weights[int(epoch)]


def _incompatibility(experiment: Experiment, record: Record) -> str | None:
    """Return why the experiment cannot start from the weights of a run, or None."""
    name, before = record.exp, record.experiment
    if record.axes.task != "masked_lm":
        return f"{name} is a run of task={record.axes.task}; {HOW}"
    for key in SAME:
        theirs, ours = map(attrgetter(key), (before, experiment))
        if theirs != ours:
            return f"{name} has {key}={theirs}, this run has {ours}; they must be equal"
    if (experiment.norm_file and experiment.norm_file.text) != (before.norm_file and before.norm_file.text):
        return f"{name} was trained with a different norm.file; they must be equal"
    if experiment.data.vocabulary not in (None, record.data.fingerprint):
        return f"{name} has a vocabulary different from data.vocabulary; leave that setting out"
    return None
