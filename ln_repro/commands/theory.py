"""`ln-repro theory`: check the paper's lemmas, theorem and figure 3 without training."""

import argparse
import json
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ln_repro.errors import UserError
from ln_repro.records import provenance
from ln_repro.report.claims_text import terminal_table
from ln_repro.report.theory_figures import draw
from ln_repro.system.files import explained, write_atomically
from ln_repro.system.paths import runs_folder
from ln_repro.system.subprocesses import cores
from ln_repro.theory import plan
from ln_repro.theory.checks import CLAIMS
from ln_repro.theory.figures import figures
from ln_repro.theory.judge import judge
from ln_repro.theory.measure import instructions, measure

LEAST_SEEDS = 10
"""Minimum number of seeds for an interval."""
LINES = 10
"""Number of progress lines printed where there is no terminal."""


def theory_command(options: argparse.Namespace) -> int:
    """Run `theory`."""
    ids = options.only or list(CLAIMS)
    if unknown := [name for name in ids if name not in CLAIMS]:
        raise UserError(f"--only: there is no {', '.join(unknown)}; known: {', '.join(CLAIMS)}")
    scale = plan.FULL if options.full else plan.QUICK
    if options.seeds is not None:
        if options.seeds < LEAST_SEEDS:
            raise UserError(f"--seeds: expected at least {LEAST_SEEDS}, which a verdict needs, got {options.seeds}")
        scale = replace(scale, seeds=options.seeds)
    if options.out:
        with explained(options.out, "--out"):
            options.out.mkdir(parents=True, exist_ok=True)
    planned, code = plan.units(scale, ids), provenance.code()
    runs = runs_folder()
    with explained(runs, "LN_REPRO_RUNS"), shown() as progress:
        measured = measure(planned, runs / "theory" / "measurements.jsonl", cores(), progress)
    findings = judge(measured, ids)
    if options.out:
        drawn = figures(measured)
        draw(drawn, options.out / "figures")
        made_by = {"code": code, "environment": provenance.environment(platform.machine(), instructions=instructions())}
        written = json.dumps({**made_by, "findings": findings, "figures": drawn}, indent=1)
        write_atomically(options.out / "theory.json", written + "\n")
    if options.json:
        print(json.dumps(findings, indent=1))
    else:
        Console().print(terminal_table(findings))
        for finding in findings:
            if finding["note"]:
                print(f"{finding['id']}: {finding['note']}")
    return 0


@contextmanager
def shown() -> Iterator[Callable[[int, int], None]]:
    """Yield a function that shows the progress of measurements: as a bar on a terminal, otherwise in a few lines."""
    columns = (TextColumn("measuring"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=(console := Console(stderr=True)), disable=not console.is_terminal) as progress:
        task = progress.add_task("")

        def show(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)
            if progress.disable and done * LINES // max(total, 1) > (done - 1) * LINES // max(total, 1):
                print(f"measured {done} of {total}", file=sys.stderr, flush=True)

        yield show
