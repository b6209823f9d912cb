"""Run measurements in several processes and store each result on disk as soon as it is available."""

import json
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import torch

from ln_repro.records.events import end_of_torn_line
from ln_repro.theory.plan import MEASURES
from ln_repro.theory.unit import Measured, Measurement, Unit
from ln_repro.version import NUMERICS


def measure(units: Sequence[Unit], kept: Path, processes: int, progress: Callable[[int, int], None]) -> Measured:
    """Return the measurement of every unit, reusing those in the file ``kept``.

    The file has one JSON object per line, and results are appended to it; damaged lines and those of other versions of
    the numerics are ignored. Each process has one thread. ``progress`` is called with the numbers of finished units
    and of all.
    """
    results = read(kept)
    missing = [unit for unit in units if unit.key not in results]
    kept.parent.mkdir(parents=True, exist_ok=True)
    with kept.open("a+b") as file:
        progress(len(units) - len(missing), len(units))
        file.write(end_of_torn_line(file))
        for done, (unit, result) in enumerate(make(missing, processes), len(units) - len(missing) + 1):
            results[unit.key] = result
            line = json.dumps({"unit": unit.key, "numerics": NUMERICS, "found": result}) + "\n"
            file.write(line.encode())
            file.flush()
            progress(done, len(units))
    return [(unit, results[unit.key]) for unit in units]


def make(units: Sequence[Unit], processes: int) -> Iterator[tuple[Unit, Measurement]]:
    """Yield units with their measurements in the order of completion."""
    context = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
    with ProcessPoolExecutor(processes, context, torch.set_num_threads, (1,)) as pool:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited: workers ignore Ctrl-C
        try:
            waiting = {pool.submit(MEASURES[unit.what], unit): unit for unit in units}
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        try:
            for done in as_completed(waiting):
                yield waiting[done], done.result()
        except BaseException:
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def instructions() -> str:
    """Return the CPU instruction set that torch uses."""
    return torch.backends.cpu.get_cpu_capability()


def read(kept: Path) -> dict[str, Measurement]:
    """Return the stored measurements by unit."""
    results: dict[str, Measurement] = {}
    for line in kept.read_text(encoding="utf-8").splitlines() if kept.exists() else []:
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # cut off by a crash
        if isinstance(entry, dict) and entry.get("numerics") == NUMERICS:
            results[entry["unit"]] = entry["found"]
    return results
