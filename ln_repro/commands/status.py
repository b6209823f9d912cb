"""`ln-repro status` and `cancel`: show runs, and stop them."""

import argparse
import contextlib
import json
import shutil
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from ln_repro.claims.arms import Arms, own_settings
from ln_repro.commands.messages import say
from ln_repro.errors import UserError
from ln_repro.experiment.compose import search_also
from ln_repro.records.archive import records_folder
from ln_repro.records.events import json_ready
from ln_repro.records.run_dir import RunFolder, find_run, runs_under
from ln_repro.records.status import OPEN, RunStatus, status_of, summary, table
from ln_repro.sweep.cluster import cancel, ended_early, queue_of, submitted_files
from ln_repro.sweep.grid import parse_request
from ln_repro.sweep.plan import PlannedRun, compose_runs, plan_runs
from ln_repro.sweep.queued import reason
from ln_repro.system.files import read_json, warn
from ln_repro.system.paths import runs_folder
from ln_repro.system.progress import plural

WATCH_SECONDS = 2.0


def status_command(options: argparse.Namespace) -> None:
    """Run `status`: show all runs, or the runs of a grid."""
    search_also(options.config_dir)
    composed = _composed(options) if _names_grid(options) or options.words else None
    if options.json or not options.watch or not sys.stdout.isatty():  # a pipe gets the table once
        statuses, width = _statuses(composed), shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print(json.dumps(json_ready([*map(asdict, statuses)]), indent=1) if options.json else table(statuses, width))
        return
    with contextlib.suppress(KeyboardInterrupt), Live(console=Console(), screen=True, auto_refresh=False) as live:
        while True:
            statuses = _statuses(composed)
            height = live.console.height - 2
            lines = table(statuses, live.console.width).splitlines()
            more = [f"... and {len(lines) - height} more"] if len(lines) > height else []
            head = Text(summary(status.state for status in statuses))
            live.update(Group(head, Text("\n".join([*lines[:height], *more]))), refresh=True)
            time.sleep(WATCH_SECONDS)


def cancel_command(options: argparse.Namespace) -> None:
    """Run `cancel`: stop queued and running runs; a running one saves its state first."""
    search_also(options.config_dir)
    chosen: dict[Path, list[str] | None] = {}
    if options.all and (options.words or options.only or options.but):
        raise UserError("--all: stops every run; leave out --all, or all other arguments")
    if options.all:
        chosen[runs_folder()] = None
    elif _names_grid(options):
        plan = plan_runs(_composed(options))
        if any(planned.id is None for planned in plan):
            raise UserError("cancel: the ids of these runs are unknown until their corpus is prepared; use --all")
        chosen[plan[0].experiment.paths.runs] = [planned.name for planned in plan if not planned.done]
    else:
        waiting = {key: name for name in submitted_files(runs_folder()) for key in (name, name.rpartition("-")[2])}
        for word in options.words:
            queued = runs_folder() / waiting[word] if word in waiting else None  # perhaps without a directory yet
            folder = queued or find_run(word, runs_folder()).path
            chosen[folder.parent] = [*(chosen.get(folder.parent) or []), folder.name]
    if not chosen:
        raise UserError("cancel: expected grid=NAME [corpus=SETTING ...] as for the sweep, runs or their ids, or --all")
    for runs, names in chosen.items():
        cancel(runs, names, print)


def _composed(options: argparse.Namespace) -> list[PlannedRun]:
    """Return the runs of the grid that the words name."""
    return compose_runs(parse_request(options.words), say, options.only, options.but)


def _names_grid(options: argparse.Namespace) -> bool:
    """Return whether the words name a grid, or raise `UserError` if only a grid could be filtered."""
    grid = any("=" in word and not Path(word).is_dir() for word in options.words)
    if not grid and (options.only or options.but):
        raise UserError("--only and --except select runs of a grid: add grid=NAME")
    return grid


def _statuses(composed: list[PlannedRun] | None) -> list[RunStatus]:
    """Return the runs of a grid; None: all runs."""
    statuses = _of_grid(composed) if composed else _of_folder(runs_folder())
    runs = composed[0].experiment.paths.runs if composed else runs_folder()
    if early := ended_early(runs, [Path(status.dir).name for status in statuses if status.state in OPEN]):
        log = [*early.values()][-1]
        warn(f"{plural(len(early), 'run')}: the job ended before the run began, {reason(1, log)} (see {log})")
    arms = Arms(records_folder())
    return [_with_settings(status, arms) for status in statuses]


def _of_grid(composed: list[PlannedRun]) -> list[RunStatus]:
    """Return the runs of a grid, whether they have begun or not; warn of similar runs that are not among them."""
    plan = plan_runs(composed)
    runs, exps = plan[0].experiment.paths.runs, {planned.run.exp for planned in plan}
    queue = queue_of(runs)
    similar = {run.path.name for run in runs_under(runs) if (run.experiment or {}).get("exp") in exps}
    if others := similar - {planned.name for planned in plan}:
        number = plural(len(others), "run")
        warn(f"not shown: {number} with settings that this grid does not have (see `ln-repro status`)")
    return [status_of(planned.folder, {**dict(planned.experiment), "id": planned.id}, queue) for planned in plan]


def _of_folder(runs: Path) -> list[RunStatus]:
    """Return the runs with a directory, and those submitted to Slurm that are queued or whose job ended early."""
    queue = queue_of(runs)
    statuses = [status_of(run, queue=queue) for run in runs_under(runs)]
    started = {Path(status.dir).name for status in statuses}
    files = {name: file for name, file in submitted_files(runs).items() if name not in started}
    ended = ended_early(runs, files.keys() - queue.keys())
    for name, file in files.items():
        if name in queue or name in ended:
            settings = {**(read_json(file, dict) or {}), "id": name.rpartition("-")[2]}
            statuses.append(status_of(RunFolder(runs / name), settings, queue))
    return statuses


def _with_settings(status: RunStatus, arms: Arms) -> RunStatus:
    """Return the state of a run with the settings in which it differs from the experiment that it is named after."""
    try:
        _, experiment = RunFolder(Path(status.dir)).read_experiment()
        return replace(status, settings=", ".join(own_settings(experiment, arms)) or None)
    except UserError:  # it has not begun, or is of a version with other settings
        return status
