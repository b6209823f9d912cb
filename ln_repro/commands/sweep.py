"""`ln-repro sweep`: run all unfinished experiments of a grid, on this machine or on Slurm."""

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from ln_repro.commands.messages import complain, say
from ln_repro.corpus.prepare import fingerprint, prepare
from ln_repro.engine import device
from ln_repro.engine.memory import run_bytes
from ln_repro.errors import LnReproError, UserError
from ln_repro.experiment.compose import compose, compose_all, experiments, grid, launcher, search_also
from ln_repro.experiment.learning_rate import LearningRate
from ln_repro.experiment.settings import Experiment, build
from ln_repro.experiment.validation import validate
from ln_repro.records import archive
from ln_repro.sweep import slurm
from ln_repro.sweep.cluster import queued, submit_unfinished, watch
from ln_repro.sweep.devices import cpu_device, gpu_devices
from ln_repro.sweep.grid import AXES, Grid, GridRun, SweepRequest, along, grid_runs, parse_request, select
from ln_repro.sweep.local import Pool
from ln_repro.sweep.plan import PlannedRun, table
from ln_repro.sweep.progress import Progress
from ln_repro.sweep.queued import Cancellations
from ln_repro.system import subprocesses
from ln_repro.system.distributed import this_rank
from ln_repro.system.files import explained

Composed = tuple[GridRun, Experiment, LearningRate]
OLD_REQUESTS = "LN_REPRO_OLD_REQUESTS"
"""Variable for the requests to stop runs that a detached sweep ignores; later ones may come before it reads them."""


def sweep_command(options: argparse.Namespace) -> int:
    if this_rank().size > 1:
        raise UserError("torchrun: a sweep starts its runs by itself; leave out torchrun")
    request = parse_request(options.words)
    composed = compose_runs(request, options)
    for _, experiment, _ in composed if request.local else ():
        device.resolve_precision(experiment)  # refuses what this machine cannot do
    if composed[0][1].norm_file:
        from ln_repro.model.trial import try_own_scheme  # imports torch

        try_own_scheme(composed[0][1])
    with explained(composed[0][1].paths.runs, "paths.runs"):
        return _sweep(request, composed, options)


def _sweep(request: SweepRequest, composed: list[Composed], options: argparse.Namespace) -> int:
    """Run, submit or show the composed runs; return the exit code."""
    runs = composed[0][1].paths.runs
    old = os.environ.pop(OLD_REQUESTS, "null")
    cancellations = Cancellations(runs, json.loads(old))  # early: requests count while the corpus is prepared, too
    if options.detach and options.fail_fast and not request.local:
        raise UserError("--fail-fast: needs a sweep that waits for its jobs; leave out --detach")
    if options.detach and request.local and not options.dry_run:
        return _detach(runs, options.config_dir, cancellations)
    if not request.local:
        settings = launcher(request.launcher, request.launcher_options)
        slurm.require(settings, dry_run=options.dry_run)
    recorded_ids = archive.ids(archive.records_folder()) if options.skip_recorded else frozenset[str]()
    plan = plan_runs(composed, prepared=not options.dry_run, skipped=recorded_ids)
    if same := len(composed) - len(plan):
        say(f"{same} of {len(composed)} runs are left out: they have the same settings as others")
    if options.dry_run:
        if plan[0].id is None:
            say("the ids, which depend on the corpus, are not known: some of its files have not been found")
        flags = [f"--config-dir={options.config_dir}"] if options.config_dir else []
        print(table(plan, queue_of(runs), flags))
        return 0
    done = sum(planned.done for planned in plan)
    recorded = sum(planned.state == "recorded" for planned in plan)
    unprobed = sum(planned.unprobed for planned in plan)
    say(
        f"{len(plan)} run{'s' * (len(plan) > 1)}, {done - recorded} finished"
        + (f", {recorded} recorded" if options.skip_recorded else "")
        + (f", {unprobed} without the requested probes (ln-repro run ... rerun=true repeats one)" if unprobed else "")
    )
    if request.local:
        progress = Progress(plan)
        _run_here(request, plan, cancellations, progress, options.fail_fast)
    else:
        number = submit_unfinished(plan, runs, settings, request.retries)
        say(f"{number} submitted to Slurm, {len(plan) - done - number} already queued or running")
        if options.detach:
            print(runs)
            return 0
        progress = Progress(plan, lambda: queued(runs))
        with progress:
            watch(plan, progress, runs, options.fail_fast)
    if progress.failures:
        left, causes = sum(not planned.done for planned in plan), "; ".join(progress.failures)
        raise LnReproError(
            f"{left} of {len(plan)} runs have no record yet; fix the cause and start the sweep again: {causes}"
        )
    print(runs)
    return 0


def compose_runs(request: SweepRequest, options: argparse.Namespace) -> list[Composed]:
    """Return the selected runs of a grid, each with its experiment and learning rate."""
    search_also(options.config_dir)
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
    runs = select(runs, options.only, options.but)
    all_settings = compose_all([((f"exp={run.exp}", *run.settings), run.values) for run in runs])
    composed, undecided = [], False
    for run, settings in zip(runs, all_settings, strict=True):
        experiment = build(settings)
        if experiment.precision == "auto":
            undecided |= not request.local and experiment.train.device != "cpu" and device.gpu().name is None
            experiment = device.with_precision(experiment)
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


def plan_runs(composed: list[Composed], prepared: bool, skipped: frozenset[str] = frozenset()) -> list[PlannedRun]:
    """Return the plan for these runs, of which ``skipped`` are recorded; if ``prepared``, prepare the corpus first.

    Runs that an option has made the same, such as ``norm=`` those of several arms, are planned once.
    """
    corpus = composed[0][1].data, composed[0][1].paths.data
    source = prepare(*corpus, say).fingerprint if prepared else fingerprint(*corpus)
    plan: dict[str, PlannedRun] = {}
    for parts in composed:
        plan.setdefault(parts[1].id(source or ""), PlannedRun(*parts, source, skipped))
    return [*plan.values()]


def _run_here(
    request: SweepRequest, plan: Sequence[PlannedRun], cancellations: Cancellations, progress: Progress, fail_fast: bool
) -> None:
    first = plan[0].experiment
    if first.train.device == "cpu" or device.gpu().name is None:
        devices = [cpu_device(first.train.threads, request.jobs)]
    else:
        vocabulary = prepare(first.data, first.paths.data, say).vocabulary
        need = max(run_bytes(planned.experiment, vocabulary) for planned in plan)
        devices = gpu_devices(device.gpu().uuids, request.jobs_per_gpu, need)
    names = ", ".join(one.name for one in devices)
    slots = sum(one.slots for one in devices)
    say(f"at most {slots} run{'s' * (slots > 1)} at a time on {names}")
    if request.budget_minutes:  # kept for compatibility; `timeout -s TERM` does the same
        timer = threading.Timer(60 * request.budget_minutes, os.kill, (os.getpid(), signal.SIGTERM))
        timer.daemon = True
        timer.start()
    with progress:
        Pool(devices, request.retries, first.paths.runs / "sweep", cancellations, progress, fail_fast).run(plan)


def _detach(runs: Path, own: Path | None, cancellations: Cancellations) -> int:
    """Start the same sweep in the background."""
    log = runs.absolute() / "sweep" / f"sweep-{time.strftime('%Y%m%d-%H%M%S')}.log"
    again = [argument for argument in sys.argv[1:] if argument != "--detach"]
    again += [f"--config-dir={own.resolve()}"] if own else []  # the last one wins
    subprocesses.start_command(again, log, **{OLD_REQUESTS: json.dumps(cancellations.old)})
    say(f"started in the background; its output is in {log} (ln-repro status, ln-repro cancel --all)")
    print(runs)
    return 0


def queue_of(runs: Path) -> dict[str, str]:
    """Return the state of each run in the cluster's queue; if Slurm does not respond, report it and return none."""
    try:
        return queued(runs)
    except LnReproError as error:
        complain(error)
        return {}
