"""The plan of a sweep: its runs, composed by Hydra, and a table of them."""

import json
import shlex
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import create_model

from ln_repro.corpus.prepare import fingerprint, prepare
from ln_repro.errors import UserError
from ln_repro.experiment.compose import compose, compose_all, grid
from ln_repro.experiment.data import Data
from ln_repro.experiment.learning_rate import LearningRate
from ln_repro.experiment.name import Name
from ln_repro.experiment.precision import with_precision
from ln_repro.experiment.settings import Experiment, build
from ln_repro.experiment.validation import Count, Positive, Section, validate
from ln_repro.records.record import Record
from ln_repro.records.run_dir import RunFolder
from ln_repro.sweep.grid import AXES, Grid, GridRun, SweepRequest, along, grid_runs, select
from ln_repro.system import gpu
from ln_repro.system.files import Json
from ln_repro.system.progress import Report

COLUMNS = ("id", "state", "lr", "updates", "M tokens", "sum of lr", "command")


@dataclass(frozen=True)
class PlannedRun:
    """A run of a grid; ``data`` is the fingerprint of its corpus if known. With a kept record, it is not run again."""

    run: GridRun
    experiment: Experiment
    rate: LearningRate
    data: str | None = None
    kept: Record | None = None

    @cached_property
    def id(self) -> str | None:
        """The id of the run; None if the corpus, on which it depends, is not prepared."""
        return self.experiment.id(self.data) if self.data else None

    @property
    def name(self) -> str:
        """The name of the run's directory, which ends in the id."""
        return self.folder.path.name

    @property
    def label(self) -> str:
        """The name for display: the name in the grid, and the id."""
        return f"{self.run.name}-{self.id or '?'}"

    @cached_property
    def folder(self) -> RunFolder:
        """The run's directory; it cannot exist if the id is not known."""
        return RunFolder.of(self.experiment, self.id or "?")

    @cached_property
    def stack_key(self) -> str:
        """The settings that runs trained as one share: all but the rate, schedule, optimizer and initial weights."""
        return self.experiment.model_dump_json(exclude={"exp", "lr", "schedule", "optimizer", "init"})

    @property
    def state(self) -> str:
        """``recorded``, or the state of the run's directory."""
        return "recorded" if self.kept else self.folder.state

    @property
    def done(self) -> bool:
        """Whether the run needs no further work."""
        return self.state in ("finished", "diverged", "recorded")

    @property
    def unprobed(self) -> bool:
        """Whether the run has a record without the requested probes; only `rerun=true` adds them."""
        record = self.kept or self.folder.record
        return record is not None and record.lacks_probes(self.experiment)

    def row(self, state: str, flags: Sequence[str]) -> tuple[str, ...]:
        """Return a row of the table, whose command has additional ``flags``. Padding counts as tokens."""
        train = self.experiment.train
        tokens = self.rate.total * train.max_tokens * train.batches_per_update / 1e6
        command = shlex.join(["ln-repro", "run", *self.run.overrides, *flags])
        return (
            self.id or "-", state, f"{self.experiment.lr:g}", str(self.rate.total),
            f"{tokens:.1f}", f"{self.rate.sum():.4g}", command,
        )  # fmt: skip


def stacks(plan: Sequence[PlannedRun], size: int) -> list[list[PlannedRun]]:
    """Divide runs into stacks of up to ``size`` that can be trained as one."""
    alike: dict[str, list[PlannedRun]] = {}
    for planned in plan:
        alike.setdefault(planned.stack_key, []).append(planned)
    return [runs[first : first + size] for runs in alike.values() for first in range(0, len(runs), size)]


def estimate(plan: Sequence[PlannedRun], records: Path, devices: Sequence[str]) -> str:
    """Return the estimated time of the runs that are not done, from records of their setting and size of model.

    It is that on the first of ``devices`` ("CPU", "GPU") with records. Also return how many of the runs have a record.
    """
    file = records / f"{Name.of(plan[0].run.exp).setting}.jsonl"
    left = [planned for planned in plan if not planned.done]
    ids, sizes = {planned.id for planned in left}, [planned.experiment.model for planned in left]
    seconds, recorded = defaultdict[tuple[str, int, int], list[float]](list), 0
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else ():
        with suppress(ValueError, KeyError, TypeError):  # `ln-repro verify` reports damaged records
            record = json.loads(line)
            device = "CPU" if record["environment"].get("device", "cpu") == "cpu" else "GPU"
            model = record["settings"]["model"]
            seconds[device, model["layers"], model["width"]].append(record["train_seconds"] / max(1, record["updates"]))
            recorded += record["id"] in ids
    words = ""
    for device in devices:
        known = [seconds.get((device, model.layers, model.width), []) for model in sizes]
        if left and all(known):
            hours = sum(planned.rate.total * median(times) for planned, times in zip(left, known, strict=True)) / 3600
            words = f"; about {hours:.1f} {device} hours"
            break
    return words + (f"; {recorded} of them are recorded (--skip-recorded leaves them out)" if recorded else "")


def compose_runs(request: SweepRequest, say: Report, only: Sequence[str], excluded: Sequence[str]) -> list[PlannedRun]:
    """Return the selected runs of a grid, not yet with their corpus; ``say`` takes messages."""
    described = validate(Grid, grid(request.grid), f"grid/{request.grid}.yaml")
    if request.arms:
        described = described.model_copy(update={"arms": [*request.arms]})
    corpus = described.corpus if request.corpus is None else request.corpus
    runs = grid_runs(described, corpus, request.seeds, request.settings)
    for axis in AXES:
        key = getattr(described, axis)
        values = getattr(request, axis) or key
        if isinstance(values, str):
            values = reference(compose(runs[0].overrides), key, tuple[Positive, ...])
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
        if not (updates_per_epoch := reference(settings, "updates_per_epoch", Count)):
            raise UserError(f"reference.updates_per_epoch: is not set by {run.exp}; a sweep needs it to plan")
        composed.append(PlannedRun(run, experiment, experiment.learning_rate(updates_per_epoch)))
    if undecided:
        say(
            "precision=auto is resolved on this machine, which has no GPU: "
            "the jobs run in fp32 unless you give precision=bf16"
        )
    return composed


def reference(settings: Json, key: str, kind: Any) -> Any:
    """Return a value of a setting's ``reference``, of a type; None if it has none; raise `UserError` if it is wrong."""
    section = create_model("Reference", __base__=Section, **{key: (kind | None, None)})  # type: ignore[call-overload]
    return getattr(validate(section, {key: settings.get("reference", {}).get(key)}, "reference"), key)


def plan_runs(
    composed: Sequence[PlannedRun], say: Report | None = None, kept: Sequence[Record] = ()
) -> list[PlannedRun]:
    """Return the plan for these runs with their corpora; those with a ``kept`` record are to be left out.

    With ``say``, which takes messages, the corpora are prepared first; without, the ids may not be known. Runs that an
    option has made the same, such as ``norm=`` those of several arms, are planned once.
    """

    @cache
    def identified(data: Data, folder: Path) -> str | None:
        return prepare(data, folder, say).fingerprint if say else fingerprint(data, folder)

    records = {record.id: record for record in kept}
    plan: dict[tuple[str, object], PlannedRun] = {}
    for planned in composed:
        data = planned.experiment.data
        source = identified(data, planned.experiment.paths.data)
        id = planned.experiment.id(source or "")
        plan.setdefault((id, source or data), replace(planned, data=source, kept=records.get(id)))
    return [*plan.values()]
