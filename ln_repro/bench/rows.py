"""The rows of the benchmark: each a list of ratios, one a round, above 1 where ours is faster.

Both sides of a round are measured one right after the other, so that what else the machine does falls on both.
"""

import statistics
from collections import defaultdict
from collections.abc import Callable
from functools import partial

from ln_repro.bench.decodings import epoch_decoding, stock_decoding
from ln_repro.bench.trainings import CANDIDATES, PARTS, WARM_UP, Window, Workload

Rounds = Callable[[Workload, int], list[float]]
PROBED_WINDOWS = 4
"""Of a period between two probes, when their cost is measured."""


def stock_run(work: Workload, rounds: int) -> list[float]:
    """One run of ours beside one of stock fairseq."""
    return [work.ours() / work.stock() for _ in range(rounds)]


def bare_run(work: Workload, rounds: int) -> list[float]:
    """One run of ours beside a loop with nothing around the model."""
    return [work.ours() / work.bare() for _ in range(rounds)]


def stock_sweep(work: Workload, rounds: int) -> list[float]:
    """Two runs of ours at a time, a thread each, beside stock fairseq's one after the other, with both threads."""
    return [work.ours(runs=2) / work.stock(threads=2) for _ in range(rounds)]


def probes_run(work: Workload, rounds: int) -> list[float]:
    """With probes at the default cadence beside without, from one run that is probed more often.

    A probe falls into the first window of its period; the others tell what an update costs without.
    """
    often, usual = PROBED_WINDOWS * WARM_UP, work.experiment.every
    longer = work.experiment.train.model_copy(update={"max_update": often * (rounds + 1), "max_epoch": None})
    probed = work.experiment.model_copy(update={"probe": "gradients", "every": often, "train": longer})
    return probe_ratios(Workload(probed, work.corpus).our_windows(), often, usual)


def probe_ratios(windows: list[Window], often: int, usual: int) -> list[float]:
    """Return, for each period but the first, the time of ``usual`` updates over that with one probe among them.

    Args:
        windows: of a run that is probed every ``often`` updates.
        often: the length of a period, some windows.
        usual: the updates between two probes that the ratio is for.
    """
    ratios, done, periods = [], 0, defaultdict[int, list[tuple[int, float]]](list)
    for window in windows:
        periods[(window.update - 1) // often].append((window.update - done, window.seconds))
        done = window.update
    for (updates, seconds), *others in [*periods.values()][1:]:
        plain = statistics.median(seconds / updates for updates, seconds in others)
        ratios.append(usual * plain / (usual * plain + seconds - updates * plain))
    return ratios


def peak_run(work: Workload, rounds: int) -> list[float]:
    """The share of the machine's matrix throughput that one run of ours uses."""
    return [work.ours() / work.peak() for _ in range(rounds)]


def packed(runs: int, work: Workload, rounds: int) -> list[float]:
    """So many runs of ours at a time, together, beside one."""
    return [work.ours(runs) / work.ours() for _ in range(rounds)]


def unaltered(change: str, work: Workload, rounds: int) -> list[float]:
    """Ours beside ours with one thing otherwise; every second time that one comes first."""
    ratios = []
    for number in range(rounds):
        other = work.altered(change) if number % 2 else None
        ours = work.ours()
        ratios.append(ours / (other or work.altered(change)))
    return ratios


ROWS: dict[str, Rounds] = {
    "stock/run": stock_run, "bare/run": bare_run, "stock/sweep": stock_sweep, "probes/run": probes_run,
    "peak/run": peak_run, "decode/stock": stock_decoding, "decode/epoch": epoch_decoding,
    **{f"packed/{runs}": partial(packed, runs) for runs in (2, 4, 8)},
    **{f"without/{part}": partial(unaltered, part) for part in PARTS},
    **{f"with/{candidate}": partial(unaltered, candidate) for candidate in CANDIDATES},
}  # fmt: skip
USUAL = (
    "stock/run", "bare/run", "stock/sweep", "probes/run", "peak/run", "decode/stock", "decode/epoch", "packed/2",
    *(f"without/{part}" for part in PARTS if part != "reading"),
)  # fmt: skip
"""What is measured unless said otherwise; on a GPU everything is."""
