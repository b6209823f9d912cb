"""The runs of a grid with their settings, composed by Hydra."""

from collections.abc import Sequence

from ln_repro.errors import UserError
from ln_repro.experiment.compose import compose, compose_all, experiments, grid
from ln_repro.experiment.learning_rate import LearningRate
from ln_repro.experiment.precision import with_precision
from ln_repro.experiment.settings import Experiment, build
from ln_repro.experiment.validation import validate
from ln_repro.sweep.grid import AXES, Grid, GridRun, SweepRequest, along, grid_runs, select
from ln_repro.system import gpu
from ln_repro.system.progress import Report

Composed = tuple[GridRun, Experiment, LearningRate]


def compose_runs(
    request: SweepRequest, say: Report, only: Sequence[str] = (), excluded: Sequence[str] = ()
) -> list[Composed]:
    """Return the selected runs of a grid, each with its experiment and learning rate; ``say`` takes messages."""
    described = validate(Grid, grid(request.grid), f"grid/{request.grid}.yaml")
    if request.arms:
        described = described.model_copy(update={"arms": [*request.arms]})
    corpus = request.corpus or described.corpus
    runs = grid_runs(described, corpus, request.seeds, request.settings, list(experiments()))
    for axis in AXES:
        values = getattr(request, axis)
        if not values and (key := getattr(described, axis)):
            values = compose(runs[0].overrides).get("reference", {}).get(key)
            if not values:
                raise UserError(f"{axis}: the setting of {corpus} has no reference.{key}; give {axis}=A,B,C")
        if values:
            runs = along(axis, runs, values)
    runs = select(runs, only, excluded)
    all_settings = compose_all([((f"exp={run.exp}", *run.settings), run.values) for run in runs])
    composed, undecided = [], False
    for run, settings in zip(runs, all_settings, strict=True):
        experiment = build(settings)
        if experiment.precision == "auto":
            undecided |= not request.local and experiment.train.device != "cpu" and gpu.default().name is None
            experiment = with_precision(experiment)
        if experiment.start is not None:
            raise UserError(
                "start: pre-trained weights do not fit every experiment of a sweep; "
                "use `ln-repro run -m exp=NAME start=A,B`"
            )
        if not (updates_per_epoch := settings.get("reference", {}).get("updates_per_epoch")):
            raise UserError(f"reference.updates_per_epoch: is not set by {run.exp}; a sweep needs it to plan")
        composed.append((run, experiment, experiment.learning_rate(updates_per_epoch)))
    if undecided:
        say("precision=auto is resolved on this machine, which has no GPU: "
            "the jobs run in fp32 unless you give precision=bf16")  # fmt: skip
    return composed
