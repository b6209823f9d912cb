"""The rows of the benchmark: lists of ratios, one per round, above 1 where our code is faster.

The two sides of a round are measured in immediate succession, so that other load on the machine affects both.
"""

import shutil
import statistics
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

from benchmarks.trainings import MPS, WARM_UP, Window, Workload
from ln_repro.experiment.compose import CONF

Rounds = Callable[[Workload, int], list[float]]
REFERENCE = "preln"
PROBED_WINDOWS = 4
"""Number of windows from one probe to the next when the cost of probes is measured."""


def probes_run(work: Workload, rounds: int) -> list[float]:
    """Compare training with probes at the default interval and without, from one run with more frequent probes.

    A probe is in the first window of its period; the other windows show the time of an update without it.
    """
    often, usual = PROBED_WINDOWS * WARM_UP, work.experiment.every
    longer = work.experiment.train.model_copy(update={"max_update": often * (rounds + 1), "max_epoch": None})
    probed = work.experiment.model_copy(update={"probe": "gradients", "every": often, "train": longer})
    (windows,) = Workload(probed, work.corpus).our_windows()
    return probe_ratios(windows, often, usual)


def probe_ratios(windows: list[Window], often: int, usual: int) -> list[float]:
    """Return, for each period except the first, the time of ``usual`` updates relative to that with one probe added.

    The windows are those of a run that is probed every ``often`` updates, which is the length of a period.
    """
    ratios, done, periods = [], 0, defaultdict[int, list[tuple[int, float]]](list)
    for window in windows:
        periods[(window.update - 1) // often].append((window.update - done, window.seconds))
        done = window.update
    for (updates, seconds), *others in [*periods.values()][1:]:
        plain = statistics.median(seconds / updates for updates, seconds in others)
        ratios.append(usual * plain / (usual * plain + seconds - updates * plain))
    return ratios


def saved_ratio(work: Workload, row: str) -> float:
    """Return the bytes that the backward pass needs with the norm placement of a row, over those with Pre-LN."""
    saved, reference = (work.with_norm(norm).update_cost()["saved"] for norm in (row.removeprefix("norm/"), REFERENCE))
    return float(saved / reference)


def norm_row(norm: str) -> Rounds:
    """Return the row that compares training with a norm placement and with Pre-LN."""
    return per_round(lambda work: work.with_norm(norm).ours() / work.with_norm(REFERENCE).ours())


def sweep(work: Workload) -> float:
    """Return our target tokens per second in a sweep: a stack of 16 runs on a GPU, two runs on two cores."""
    return work.stacked(16) if work.gpu else work.ours(2)


def stack_row(runs: int) -> Rounds:
    """Return the row that compares a stack with one run; all stacks are measured in succession, and once."""
    return lambda work, _: [work.stacked(runs) / work.stacked(1)]


def per_round(ratio: Callable[[Workload], float]) -> Rounds:
    """Return a row that measures ``ratio`` once per round."""
    return lambda work, rounds: [ratio(replace(work, round=number)) for number in range(rounds)]


ROWS: dict[str, Rounds] = {
    "stock/run": per_round(lambda work: work.ours() / work.stock()),
    "stock/sweep": per_round(lambda work: sweep(work) / work.stock(threads=2)),
    "stack/8": stack_row(8),
    "stack/4": stack_row(4),
    "stack/16": stack_row(16),
    "packed/8": per_round(lambda work: work.ours(8) / work.ours()),
    "mps/8": per_round(lambda work: work.under_mps(8) / work.ours()),
    "packed/4": per_round(lambda work: work.ours(4) / work.ours()),
    "mps/4": per_round(lambda work: work.under_mps(4) / work.ours()),
    "packed/2": per_round(lambda work: work.ours(2) / work.ours()),
    "mps/2": per_round(lambda work: work.under_mps(2) / work.ours()),
    "probes/run": probes_run,
    "bare/run": per_round(lambda work: work.ours() / work.bare()),
}
"""The rows, the most important ones first, because time may be limited. ``packed/N`` compares the total throughput of N
simultaneous runs with that of one, ``mps/N`` the same under NVIDIA's Multi-Process Service, ``stack/N`` that of N runs
that are trained as one, and ``stock/sweep`` what a sweep does on this machine with one run of stock fairseq.
"""
NORMS = {
    f"norm/{path.stem}": norm_row(path.stem)
    for path in sorted((CONF / "norm").glob("*.yaml"))
    if path.stem not in (REFERENCE, "own")
}
"""The rows that compare another placement of the norm with Pre-LN; they are measured only if they are asked for."""
ON_CPU = ["stock/run", "probes/run", "stock/sweep", "bare/run", "packed/2"]
"""The rows that are measured by default without a GPU."""


def default_rows(gpu: bool) -> list[str]:
    """Return the rows that are measured by default; those under MPS need its control program."""
    on_gpu = [name for name in ROWS if shutil.which(MPS) or not name.startswith("mps/")]
    return on_gpu if gpu else ON_CPU
