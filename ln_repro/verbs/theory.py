"""`ln-repro theory`: what the paper proves, and its figure 3, checked without training."""

import argparse
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ln_repro.errors import UserError

LEAST_SEEDS = 5


def theory_verb(options: argparse.Namespace) -> int:
    """`theory`."""
    from rich.console import Console

    from ln_repro.child import cores
    from ln_repro.disk import write_atomically
    from ln_repro.report.theory import draw_figure_3, findings_table
    from ln_repro.theory.figure_3 import figure_3
    from ln_repro.theory.measure import measure
    from ln_repro.theory.plan import FULL, JUDGES, QUICK, judge, units

    ids = options.only or list(JUDGES)
    if unknown := [name for name in ids if name not in JUDGES]:
        raise UserError(f"--only: there is no {', '.join(unknown)}; known: {', '.join(JUDGES)}")
    scale = FULL if options.full else QUICK
    if options.seeds is not None:
        if options.seeds < LEAST_SEEDS:
            raise UserError(f"--seeds: a verdict needs an interval over at least {LEAST_SEEDS}, got {options.seeds}")
        scale = replace(scale, seeds=options.seeds)
    planned = units(scale, ids)
    kept = Path(os.environ.get("LN_REPRO_RUNS", "./runs")) / "theory" / "measurements.jsonl"
    with bar() as progress:
        measured = measure(planned, kept, cores(), progress)
    findings = [finding.as_dict() for finding in judge(measured, ids)]
    if options.out:
        written: dict[str, Any] = {"findings": findings}
        if any(unit.what == "real_gradients" for unit in planned):
            written["figure_3"] = figure_3(measured)
            draw_figure_3(written["figure_3"], options.out / "figures")
        options.out.mkdir(parents=True, exist_ok=True)
        write_atomically(options.out / "theory.json", json.dumps(written, indent=1) + "\n")
    if options.json:
        print(json.dumps(findings, indent=1))
    else:
        Console().print(findings_table(findings))
    return 0


@contextmanager
def bar() -> Iterator[Callable[[int, int], None]]:
    """Yield a function that shows how many of how many measurements are done."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("measuring"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("")
        yield lambda done, total: progress.update(task, completed=done, total=total)
