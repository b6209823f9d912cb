"""`ln-repro sweep`: run all unfinished experiments of a grid, on this machine or on Slurm."""

import argparse
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from ln_repro.commands.messages import say
from ln_repro.corpus.prepare import prepare
from ln_repro.engine.memory import run_bytes
from ln_repro.errors import Interrupted, LnReproError, UserError
from ln_repro.experiment.compose import launcher, search_also
from ln_repro.experiment.precision import resolve_precision
from ln_repro.records import archive
from ln_repro.records.status import aligned, summary, with_queue
from ln_repro.sweep import slurm
from ln_repro.sweep.cluster import queue_of, states_in_queue, submit_unfinished, watch
from ln_repro.sweep.devices import cpu_device, gpu_devices
from ln_repro.sweep.grid import SweepRequest, parse_request
from ln_repro.sweep.local import Pool
from ln_repro.sweep.plan import COLUMNS, PlannedRun, compose_runs, estimate, plan_runs
from ln_repro.sweep.progress import Progress
from ln_repro.sweep.queued import Cancellations
from ln_repro.system import gpu, subprocesses
from ln_repro.system.distributed import this_rank
from ln_repro.system.files import Json, explained
from ln_repro.system.progress import plural

OLD_REQUESTS = "LN_REPRO_OLD_REQUESTS"
"""Variable for the number of the first request to stop runs that a detached sweep does not ignore."""


def sweep_command(options: argparse.Namespace) -> None:
    if this_rank().size > 1:
        raise UserError("torchrun: a sweep starts its runs by itself; leave out torchrun")
    request = parse_request(options.words)
    search_also(options.config_dir)
    composed = compose_runs(request, say, options.only, options.but)
    if request.local:
        for planned in composed:
            resolve_precision(planned.experiment)  # refuses what this machine cannot do
    first = composed[0].experiment
    if first.norm_file:
        from ln_repro.model.trial import try_own_scheme  # imports torch

        try_own_scheme(first)
    with explained(first.paths.runs, "paths.runs"):
        _sweep(request, composed, options)


def _sweep(request: SweepRequest, composed: list[PlannedRun], options: argparse.Namespace) -> None:
    """Show, run or submit the composed runs."""
    runs = composed[0].experiment.paths.runs
    begin = os.environ.pop(OLD_REQUESTS, None)  # early: requests count while the corpus is prepared, too
    cancellations = Cancellations(runs.absolute(), None if begin is None else int(begin))
    if options.detach and options.fail_fast and not request.local:
        raise UserError("--fail-fast: needs a sweep that waits for its jobs; leave out --detach")
    if options.detach and request.local and not options.dry_run:
        _detach(runs, cancellations)
        return
    if not request.local:
        settings = launcher(request.launcher, request.launcher_options)
        slurm.require(settings, dry_run=options.dry_run)
    if options.skip_recorded and not archive.records_folder().is_dir():
        raise UserError("--skip-recorded: needs the records of a checkout of the repository")
    records = archive.read_kept(archive.records_folder()).records if options.skip_recorded else []
    plan = plan_runs(composed, None if options.dry_run else say, records)
    if same := len(composed) - len(plan):
        say(f"{same} of {len(composed)} runs are left out: they have the same settings as others")
    if options.dry_run:
        _show(request, plan, options)
        return
    recorded = sum(planned.state == "recorded" for planned in plan)
    unprobed = sum(planned.unprobed for planned in plan)
    say(
        f"{plural(len(plan), 'run')}, {sum(planned.done for planned in plan) - recorded} finished"
        + (f", {recorded} recorded" if options.skip_recorded else "")
        + (f", {unprobed} without the requested probes (ln-repro run ... rerun=true repeats one)" if unprobed else "")
    )
    if request.local:
        failures = _run_here(request, plan, cancellations, options.fail_fast)
    else:
        failures = _submit(request, plan, cancellations, settings, options)
    if failures:
        left, causes = sum(not planned.done for planned in plan), "; ".join(failures)
        raise LnReproError(
            f"{left} of {len(plan)} runs have no record yet; fix the cause and start the sweep again: {causes}"
        )
    if not options.detach and (left := sum(not planned.done for planned in plan)):
        raise Interrupted(f"{plural(left, 'run')} stopped; the same command resumes the sweep")
    print(runs)


def _show(request: SweepRequest, plan: Sequence[PlannedRun], options: argparse.Namespace) -> None:
    """Print a row for each run, how many runs there are in each state, and the estimated time."""
    if any(planned.id is None for planned in plan):
        say("ids, which depend on the corpus, are not known: some of its files have not been found")
    flags = [f"--config-dir={options.config_dir}"] if options.config_dir else []
    queue = queue_of(plan[0].experiment.paths.runs)
    states = [with_queue(planned.state, planned.name, queue) for planned in plan]
    rows = [COLUMNS, *(planned.row(state, flags) for planned, state in zip(plan, states, strict=True))]
    print(aligned(rows, shutil.get_terminal_size().columns if sys.stdout.isatty() else None))
    devices = ("CPU",) if plan[0].experiment.train.device == "cpu" else ("GPU", "CPU")  # a cluster may have either
    if request.local and devices[1:]:
        devices = ("GPU",) if gpu.default().name else ("CPU",)
    print(f"{summary(states)}{estimate(plan, archive.records_folder(), devices)}")


def _run_here(
    request: SweepRequest, plan: Sequence[PlannedRun], cancellations: Cancellations, fail_fast: bool
) -> list[str]:
    """Run the plan on this machine; return why runs have no record."""
    first = plan[0].experiment
    on_cpu = first.train.device == "cpu" or gpu.default().name is None
    if on_cpu:
        if request.jobs_per_gpu > 1:
            say("jobs_per_gpu: without effect, as this sweep runs on a CPU; there, use jobs=N")
        devices = [cpu_device(first.train.threads, request.jobs, request.stack or 1)]
    else:
        if request.jobs:
            say("jobs: without effect, as this sweep runs on a GPU; there, use jobs_per_gpu=N")
        corpora = {(planned.experiment.data, planned.experiment.paths.data) for planned in plan}
        vocabulary = max(prepare(*corpus, say).vocabulary for corpus in corpora)
        need = max(run_bytes(planned.experiment, vocabulary) for planned in plan)
        devices = gpu_devices(gpu.default().uuids, request.jobs_per_gpu, need, request.stack)
    names = ", ".join(device.name for device in devices)
    most, stack = sum(device.slots * device.stack for device in devices), max(device.stack for device in devices)
    together = f", up to {stack} trained as one" if stack > 1 else ""
    say(f"at most {plural(most, 'run')} at a time on {names}{together}")
    if request.budget_minutes:  # kept for compatibility; `timeout -s TERM` does the same
        timer = threading.Timer(60 * request.budget_minutes, os.kill, (os.getpid(), signal.SIGTERM))
        timer.daemon = True
        timer.start()
    progress = Progress(plan)
    with progress:
        Pool(devices, request.retries, first.paths.runs / "sweep", cancellations, progress, fail_fast).run(plan)
    return progress.failures


def _submit(
    request: SweepRequest,
    plan: Sequence[PlannedRun],
    cancellations: Cancellations,
    settings: Json,
    options: argparse.Namespace,
) -> list[str]:
    """Submit the plan to Slurm and, without ``--detach``, wait for its jobs; return why runs have no record."""
    runs, done = plan[0].experiment.paths.runs, sum(planned.done for planned in plan)
    number = submit_unfinished(plan, runs, settings, request.retries, cancellations, request.stack or 1)
    say(f"{number} submitted to Slurm, {len(plan) - done - number} already queued, running or cancelled")
    if options.detach:
        return []
    progress = Progress(plan, lambda: states_in_queue(runs))
    with progress:
        watch(plan, progress, runs, cancellations, options.fail_fast)
    return progress.failures


def _detach(runs: Path, cancellations: Cancellations) -> None:
    """Start the same sweep in the background."""
    log = runs.absolute() / "sweep" / f"sweep-{time.strftime('%Y%m%d-%H%M%S')}.log"
    again = [argument for argument in sys.argv[1:] if argument != "--detach"]
    subprocesses.start_command(again, log, {OLD_REQUESTS: str(cancellations.begin)})
    say(f"started in the background; its output is in {log} (ln-repro status, ln-repro cancel --all)")
    print(runs)
