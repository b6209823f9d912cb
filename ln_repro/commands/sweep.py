"""`ln-repro sweep`: a grid's cells, composed, planned, and run to their end."""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ln_repro.commands.messages import complain, say
from ln_repro.errors import LnReproError, UserError

if TYPE_CHECKING:
    from ln_repro.experiment.learning_rate import LearningRate
    from ln_repro.experiment.settings import Experiment
    from ln_repro.sweep.grid import Asked, Cell
    from ln_repro.sweep.plan import Planned
    from ln_repro.sweep.progress import Board
    from ln_repro.sweep.requests import Requests

    Composed = tuple[Cell, Experiment, LearningRate]


def sweep_verb(options: argparse.Namespace) -> int:
    """`sweep`."""
    from ln_repro.sweep import slurm
    from ln_repro.sweep.grid import words
    from ln_repro.sweep.plan import table
    from ln_repro.sweep.progress import Board
    from ln_repro.sweep.requests import Requests
    from ln_repro.system.distributed import this_rank

    began = time.monotonic()
    if this_rank().size > 1:
        raise UserError("torchrun: starts one run at a time; a sweep starts its runs itself")
    asked = words(options.words)
    composed = compose_cells(asked, options)
    runs = composed[0][1].paths.runs
    requests = Requests(runs)  # those made from now on count, also while the corpus is prepared
    if options.detach and options.fail_fast and not asked.local:
        raise UserError("--fail-fast: on a cluster somebody has to watch the queue; leave out --detach")
    if options.detach and asked.local and not options.dry_run:
        return _leave(runs, options.config_dir)
    if not asked.local and not options.dry_run:
        slurm.require()
    plan = plan_cells(
        composed, prepared=not options.dry_run, skipped=_recorded() if options.skip_recorded else frozenset()
    )
    if options.dry_run:
        if options.skip_recorded and plan[0].id is None:
            say("which cells are recorded shows once the corpus is here: ln-repro data prepare")
        print(table(plan, queue_of(runs)))
        return 0
    done = sum(planned.done for planned in plan)
    recorded = sum(planned.state == "recorded" for planned in plan)
    unprobed = sum(planned.unprobed for planned in plan)
    say(
        f"{len(plan)} cells, {done - recorded} finished already"
        + (f", {recorded} recorded" if options.skip_recorded else "")
        + (f", {unprobed} without the probes asked for" if unprobed else "")
    )
    if asked.local:
        board = Board(plan)
        _run_here(asked, plan, requests, board, began, options.fail_fast)
    else:
        from ln_repro.experiment.compose import launcher
        from ln_repro.sweep.cluster import hand_over, queued, watch

        settings = launcher(asked.launcher, asked.launcher_options)
        handed = hand_over(plan, runs, settings, asked.retries)
        say(f"{handed} handed to Slurm, {len(plan) - done - handed} there already")
        if options.detach:
            print(runs)
            return 0
        board = Board(plan, lambda: queued(runs))
        with board:
            watch(plan, board, runs, options.fail_fast)
    if board.troubles:
        left = sum(not planned.done for planned in plan)
        raise LnReproError(f"{left} of {len(plan)} cells have no record yet: {'; '.join(board.troubles)}")
    print(runs)
    return 0


def compose_cells(asked: "Asked", options: argparse.Namespace) -> "list[Composed]":
    """Return the cells of a grid that were asked for, each with its experiment and its learning rate."""
    from ln_repro.experiment.compose import compose, experiments, grid, search_also
    from ln_repro.experiment.settings import build
    from ln_repro.sweep.grid import by_rate, cells, chosen

    search_also(options.config_dir)
    settle, described = _settle(asked), grid(asked.grid)
    corpus = asked.corpus or described.get("corpus", "toy")
    described["arms"] = asked.arms or described["arms"]
    every = cells(described, corpus, asked.seeds, asked.settings, list(experiments()))
    rates: Sequence[float] = asked.rates
    if not rates and (key := described.get("rates")):
        rates = compose(every[0].overrides).get("reference", {}).get(key)
        if not rates:
            raise UserError(f"rates: the setting of {corpus} has no reference.{key}; give rates=A,B,C")
    if rates:
        every = by_rate(every, rates)
    composed = []
    for cell in chosen(every, _patterns(options.only), _patterns(options.but)):
        settings = compose(cell.overrides)
        experiment = settle(build(settings))
        if experiment.start is not None:
            raise UserError(
                "start: is no one start for every norm of a grid; `ln-repro run -m exp=NAME start=A,B` takes it"
            )
        if not (updates_per_epoch := settings.get("reference", {}).get("updates_per_epoch")):
            raise UserError(f"reference.updates_per_epoch: is not set by {cell.exp}; a sweep counts its updates by it")
        composed.append((cell, experiment, experiment.learning_rate(updates_per_epoch)))
    return composed


def _patterns(given: Sequence[str]) -> list[str]:
    return [pattern for words in given for pattern in words.split(",")]


def _recorded() -> frozenset[str]:
    """Return the ids of the committed records."""
    from ln_repro.records.archive import ids, records_folder

    return ids(records_folder())


def _settle(asked: "Asked") -> "Callable[[Experiment], Experiment]":
    """Return what settles an experiment's precision: for this machine, or for the nodes that it is handed to."""
    from ln_repro.engine.device import gpu, settle
    from ln_repro.experiment.compose import launcher
    from ln_repro.sweep.slurm import asks_for_gpus

    if asked.local or not asks_for_gpus(launcher(asked.launcher, asked.launcher_options)):
        return settle

    def there(experiment: "Experiment") -> "Experiment":
        if experiment.train.device == "cpu":
            return settle(experiment)
        if experiment.precision != "auto":  # the node says whether it has it
            return experiment
        if gpu().name is None:
            _say_once("precision=auto goes by the GPU, and there is none here: the jobs run in fp32, unless you give "
                      "precision=bf16")  # fmt: skip
        return settle(experiment)

    return there


@cache
def _say_once(line: str) -> None:
    say(line)


def plan_cells(composed: "list[Composed]", prepared: bool, skipped: frozenset[str] = frozenset()) -> list["Planned"]:
    """Return the plan of these cells.

    Args:
        composed: the cells, with experiments and rates.
        prepared: prepare the corpus, once and not by every cell.
        skipped: the ids of cells that need no run.
    """
    from ln_repro.corpus.prepare import fingerprint, prepare
    from ln_repro.engine import process
    from ln_repro.sweep.plan import Planned

    first = composed[0][1]
    if prepared:
        source: str | None = prepare(first.data, first.paths.data, process.binarise, say).fingerprint
    else:
        source = fingerprint(first.data, first.paths.data)
    return [Planned(*parts, source, skipped) for parts in composed]


def _run_here(
    asked: "Asked", plan: Sequence["Planned"], requests: "Requests", board: "Board", began: float,
    fail_fast: bool = False,
) -> None:  # fmt: skip
    from ln_repro.engine.device import gpu
    from ln_repro.sweep.budget import Budget
    from ln_repro.sweep.devices import places
    from ln_repro.sweep.local import Pool
    from ln_repro.sweep.packing import first_try, remember

    train, folder = plan[0].experiment.train, plan[0].experiment.paths.runs / "sweep"
    on_gpu = train.device != "cpu" and gpu().name is not None
    work = f"{plan[0].size} on {gpu().name}"
    where = places(on_gpu, train.threads, asked.jobs, asked.jobs_per_gpu, first_try(folder, work))
    say(f"at most {sum(place.packing.most for place in where)} at a time on {', '.join(place.name for place in where)}")
    try:
        with board:
            budget = Budget(asked.budget_minutes, plan, began)
            Pool(where, asked.retries, folder, requests, board, budget, fail_fast).run(plan)
    finally:
        if on_gpu and not asked.jobs_per_gpu:
            remember(folder, work, max((place.packing for place in where), key=lambda packing: packing.good))


def _leave(runs: Path, own: Path | None) -> int:
    """Start the same sweep once more, in the background, and leave it."""
    from ln_repro.system import subprocesses

    log = runs.absolute() / "sweep" / f"sweep-{time.strftime('%Y%m%d-%H%M%S')}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    again = [argument for argument in sys.argv[1:] if argument != "--detach"]
    again += [f"--config-dir={own.resolve()}"] if own else []  # the last one counts
    with log.open("ab") as output:
        subprocess.Popen(
            [*subprocesses.SELF, "-m", "ln_repro.cli", *again],
            env=subprocesses.environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    say(f"started; {log} says how it goes (also: ln-repro status; to stop it: ln-repro cancel)")
    print(runs)
    return 0


def queue_of(runs: Path) -> dict[str, str]:
    """Return what waits in the cluster's queue; where it does not answer, say so and go by the files."""
    from ln_repro.sweep.cluster import queued

    try:
        return queued(runs)
    except LnReproError as error:
        complain(error)
        return {}
