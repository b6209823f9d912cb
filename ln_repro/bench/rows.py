"""The rows of the benchmark: lists of ratios, one per round, above 1 where our code is faster.

The two sides of a round are measured in immediate succession, so that other load on the machine affects both.
"""

import statistics
from collections import defaultdict
from collections.abc import Callable
from functools import partial

from ln_repro.bench.decodings import stock_decoding
from ln_repro.bench.trainings import WARM_UP, Window, Workload

Rounds = Callable[[Workload, int], list[float]]
PROBED_WINDOWS = 4
"""Number of windows from one probe to the next when the cost of probes is measured."""


def stock_run(work: Workload, rounds: int) -> list[float]:
    """Compare one of our runs with one of stock fairseq."""
    return [work.ours() / work.stock() for _ in range(rounds)]


def bare_run(work: Workload, rounds: int) -> list[float]:
    """Compare one of our runs with a plain loop around the model."""
    return [work.ours() / work.bare() for _ in range(rounds)]


def stock_sweep(work: Workload, rounds: int) -> list[float]:
    """Compare two of our runs at a time, with one thread each, with one of stock fairseq with two threads."""
    return [work.ours(runs=2) / work.stock(threads=2) for _ in range(rounds)]


def probes_run(work: Workload, rounds: int) -> list[float]:
    """Compare training with probes at the default interval and without, from one run with more frequent probes.

    A probe is in the first window of its period; the other windows show the time of an update without it.
    """
    often, usual = PROBED_WINDOWS * WARM_UP, work.experiment.every
    longer = work.experiment.train.model_copy(update={"max_update": often * (rounds + 1), "max_epoch": None})
    probed = work.experiment.model_copy(update={"probe": "gradients", "every": often, "train": longer})
    return probe_ratios(Workload(probed, work.corpus).our_windows(), often, usual)


def probe_ratios(windows: list[Window], often: int, usual: int) -> list[float]:
    """Return, for each period except the first, the time of ``usual`` updates relative to that with one probe added.

    Args:
        windows: the windows of a run that is probed every ``often`` updates.
        often: the length of a period in updates.
        usual: the number of updates between two probes for which the ratio is computed.
    """
    ratios, done, periods = [], 0, defaultdict[int, list[tuple[int, float]]](list)
    for window in windows:
        periods[(window.update - 1) // often].append((window.update - done, window.seconds))
        done = window.update
    for (updates, seconds), *others in [*periods.values()][1:]:
        plain = statistics.median(seconds / updates for updates, seconds in others)
        ratios.append(usual * plain / (usual * plain + seconds - updates * plain))
    return ratios


def packed(runs: int, work: Workload, rounds: int) -> list[float]:
    """Compare the total throughput of several of our runs on one device with that of one (``jobs_per_gpu``)."""
    return [work.ours(runs) / work.ours() for _ in range(rounds)]


ROWS: dict[str, Rounds] = {
    "stock/run": stock_run, "packed/4": partial(packed, 4), "decode/stock": stock_decoding, "probes/run": probes_run,
    "stock/sweep": stock_sweep, "bare/run": bare_run, "packed/2": partial(packed, 2), "packed/8": partial(packed, 8),
}  # fmt: skip
"""The rows, the most important ones first, because time may be limited."""
ON_CPU = [name for name in ROWS if name not in ("packed/4", "packed/8")]
"""The rows that are measured by default without a GPU."""
