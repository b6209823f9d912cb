"""Grids of runs: the product of arms, seeds and learning rates or depths on one corpus, with further settings."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import Field

from ln_repro.errors import UserError
from ln_repro.experiment.compose import experiments
from ln_repro.experiment.name import Name
from ln_repro.experiment.settings import MOST_SEEDS
from ln_repro.experiment.validation import Count, Natural, Positive, Section, nearest, validate
from ln_repro.system.files import Json


class Grid(Section):
    """The content of a grid's file (`conf/grid`)."""

    arms: list[str] = Field(min_length=1)
    overrides: list[list[str]] = Field([[]], min_length=1)  # lists of settings, for each of which every arm is run
    corpus: str = "toy"
    rates: str | Annotated[list[float], Field(min_length=1)] | None = None
    depths: str | Annotated[list[float], Field(min_length=1)] | None = None
    """For an axis of `AXES`, its values, or the key below the setting's ``reference`` that has them."""


@dataclass(frozen=True)
class GridRun:
    """One run of a grid, described by overrides."""

    exp: str
    seed: int
    settings: tuple[str, ...] = ()
    axes: tuple[tuple[str, float], ...] = ()  # the settings that are axes of the grid, with their values

    @property
    def values(self) -> tuple[str, ...]:
        """The overrides that only replace a number: the seed and the axes."""
        return (f"seed={self.seed}", *(f"{key}={value:.12g}" for key, value in self.axes))

    @property
    def overrides(self) -> list[str]:
        """The arguments for `ln-repro run`."""
        return [f"exp={self.exp}", *self.values, *self.settings]

    @property
    def name(self) -> str:
        """The name in the grid, for example ``toy_postln_warm-lr0.001-s1``."""
        return f"{self.group}-s{self.seed}"

    @property
    def group(self) -> str:
        """The part of the name that is the same for all seeds."""
        return "-".join([self.exp, *(f"{key.rpartition('.')[2]}{value:.12g}" for key, value in self.axes)])

    def matches(self, pattern: str) -> bool:
        """Return whether ``pattern`` (with ``*``) matches the experiment or arm, with or without axes and seed."""
        names = (self.exp, f"{self.exp}-s{self.seed}", self.group, self.name)
        return any(fnmatchcase(name, pattern) or fnmatchcase(Name.of(name).arm, pattern) for name in names)


class SweepRequest(Section):
    """The arguments of `sweep`."""

    grid: str = ""
    corpus: str | None = None  # None: the grid's default
    seeds: tuple[int, ...] = (1,)
    launcher: str = "local"  # or "slurm", or a YAML file with options for Slurm
    launcher_options: tuple[str, ...] = ()  # for Slurm, each ``KEY=VALUE``
    jobs: Count | None = None
    jobs_per_gpu: Count = 1
    stack: Count | None = None  # runs that are trained as one; None: as many as fit on a GPU of this machine, else 1
    retries: Natural = 2
    budget_minutes: Count | None = None  # kept for compatibility, like `timeout -s TERM 25m ln-repro sweep ...`
    arms: tuple[str, ...] = ()  # instead of the grid's
    rates: tuple[Positive, ...] = ()  # instead of the setting's, like `depths`
    depths: tuple[Positive, ...] = ()
    settings: tuple[str, ...] = ()  # overrides for every run

    @property
    def local(self) -> bool:
        """Whether the runs are started on this machine."""
        return self.launcher == "local"


AXES = {"rates": "lr", "depths": "model.layers"}  # the settings that a grid can vary, by the name of the axis
REFUSED = {
    "exp": "the experiments are given by the grid; --only PATTERN selects some of them (--only '*_sgd')",
    "seed": "a grid numbers its seeds; seeds=N says how many, seeds=101-105 which",
    "rerun": "a sweep resumes its runs; `ln-repro run exp=NAME rerun=true` starts one again",
}
"""Settings of a run that a sweep does not accept, and what to use instead."""


def parse_request(words: Sequence[str]) -> SweepRequest:
    """Parse ``grid=NAME corpus=SETTING seeds=N|A-B arms=A,B rates=X,Y launcher=NAME key=value ...``."""
    arguments: Json = {}
    options, settings = [], []
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise UserError(f"expected key=value, got {word!r} (a grid is grid=NAME)")
        if key in ("arms", *AXES):
            if not all(value.split(",")):
                raise UserError(f"{key}: expected a list ({key}=A,B), got {value!r}; leave it out for the grid's own")
            arguments[key] = tuple(dict.fromkeys(value.split(",")))
        elif key == "seeds":
            arguments[key] = seed_numbers(value)
        elif key in SweepRequest.model_fields.keys() - {"settings", "launcher_options"}:
            arguments[key] = value
        elif key.startswith("launcher."):
            options.append(word.partition(".")[2])
        else:
            settings.append(accepted(word))
    request = validate(SweepRequest, {**arguments, "launcher_options": options, "settings": settings})
    if options and request.local:
        raise UserError(f"launcher.{options[0]}: needs launcher=slurm; on this machine use jobs=N or jobs_per_gpu=N")
    if not request.local and (arguments.keys() & {"jobs", "jobs_per_gpu", "budget_minutes"}):
        raise UserError(
            "jobs, jobs_per_gpu, budget_minutes: only for launcher=local; "
            "Slurm takes launcher.array_parallelism=N and launcher.timeout_min=N"
        )
    if request.launcher not in ("local", "slurm") and not request.launcher.endswith((".yaml", ".yml")):
        raise UserError(f"launcher: expected local, slurm or a YAML file of your own, got {request.launcher!r}")
    return request


def accepted(setting: str) -> str:
    """Return a setting for the runs of a grid, or raise `UserError` if it is one of `REFUSED`."""
    if (name := setting.partition("=")[0].lstrip("+~")) in REFUSED:
        raise UserError(f"{name}: {REFUSED[name]}")
    return setting


def seed_numbers(text: str) -> tuple[int, ...]:
    """Return the seeds that ``text`` means: 1 to N (``N``), a range (``101-105``), or a list of seeds and ranges.

    Raises:
        UserError: it is none of them, or a seed is too large.
    """
    expected = f"expected a number of seeds (5), a range (101-105) or a list (1,3,101-105), up to {MOST_SEEDS}"
    seeds: list[int] = []
    for word in text.split(",") if "," in text or "-" in text else [f"1-{text}"]:
        parts = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", word)
        first, last = (int(parts[1]), int(parts[2] or parts[1])) if parts else (0, 0)
        if not 1 <= first <= last <= MOST_SEEDS:
            raise UserError(f"seeds: {expected}, got {text!r}")
        seeds += range(first, last + 1)
    return tuple(dict.fromkeys(seeds))


def along(axis: str, runs: Sequence[GridRun], values: Sequence[float]) -> list[GridRun]:
    """Return each run at each value of an axis, or raise `UserError` if its setting is also given."""
    key = AXES[axis]
    if any(setting.lstrip("+").startswith(f"{key}=") for run in runs for setting in run.settings):
        raise UserError(f"{key}: is an axis of this grid; give {axis}=A,B,C, or {axis}=A for a single one")
    return [replace(run, axes=(*run.axes, (key, value))) for run in runs for value in dict.fromkeys(values)]


def grid_runs(grid: Grid, corpus: str, seeds: Sequence[int], settings: Sequence[str]) -> list[GridRun]:
    """Return the runs of a grid, with all arms of a seed before those of the next seed.

    ``corpus`` is the first part of the experiments' names, and ``settings`` are overrides for every run.
    """
    known = list(experiments())
    corpora = sorted({Name.of(name).setting for name in known})
    if corpus not in corpora:
        raise UserError(f"corpus: there is no setting {corpus!r}{nearest(corpus, corpora)}")
    if missing := [arm for arm in grid.arms if f"{corpus}_{arm}" not in known]:
        whole = [name for name in corpora if all(f"{name}_{arm}" in known for arm in grid.arms)]
        arms = [Name.of(name).arm for name in known if name.startswith(f"{corpus}_")]
        words = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not defined for {corpus}"
        if whole:
            raise UserError(f"grid: {words}; the grid takes corpus={' or '.join(whole)}")
        raise UserError(f"arms: {words}{nearest(missing[0], arms)}")
    return [
        GridRun(f"{corpus}_{arm}", seed, (*map(accepted, shared), *settings))
        for seed in seeds
        for shared in grid.overrides
        for arm in grid.arms
    ]


def select(runs: Sequence[GridRun], only: Sequence[str], excluded: Sequence[str]) -> list[GridRun]:
    """Return the runs that match a pattern of ``only`` (if it is not empty) and no pattern of ``excluded``."""
    for pattern in (*only, *excluded):
        if not any(run.matches(pattern) for run in runs):
            groups = sorted({run.group for run in runs})
            more = f" and {len(groups) - 6} more (--dry-run lists them)" if len(groups) > 6 else ""
            raise UserError(f"{pattern!r} matches no run of the grid; its runs are {', '.join(groups[:6])}{more}")
    chosen = [run for run in runs if not only or any(map(run.matches, only))]
    selected = [run for run in chosen if not any(map(run.matches, excluded))]
    if not selected:
        raise UserError("--only and --except exclude every run")
    return selected
