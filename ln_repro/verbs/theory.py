"""`ln-repro theory`: what the paper proves, and its figure 3, checked without training."""

import argparse
import json
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from ln_repro.errors import UserError
from ln_repro.folders import runs_folder

LEAST_SEEDS = 5


def theory_verb(options: argparse.Namespace) -> int:
    """`theory`."""
    from rich.console import Console

    from ln_repro.child import cores
    from ln_repro.disk import explained, write_atomically
    from ln_repro.provenance import code as code_of_now
    from ln_repro.provenance import environment
    from ln_repro.report.theory import terminal_table
    from ln_repro.report.theory_figures import draw
    from ln_repro.theory.figures import figures
    from ln_repro.theory.measure import instructions, measure
    from ln_repro.theory.plan import FULL, JUDGES, QUICK, judge, units

    ids = options.only or list(JUDGES)
    if unknown := [name for name in ids if name not in JUDGES]:
        raise UserError(f"--only: there is no {', '.join(unknown)}; known: {', '.join(JUDGES)}")
    scale = FULL if options.full else QUICK
    if options.seeds is not None:
        if options.seeds < LEAST_SEEDS:
            raise UserError(f"--seeds: a verdict needs an interval over at least {LEAST_SEEDS}, got {options.seeds}")
        scale = replace(scale, seeds=options.seeds)
    if options.out:
        with explained(options.out, "--out"):
            options.out.mkdir(parents=True, exist_ok=True)
    planned, code = units(scale, ids), code_of_now()
    kept = runs_folder() / "theory" / "measurements.jsonl"
    with bar() as progress:
        measured = measure(planned, kept, cores(), progress)
    findings = [finding.as_dict() for finding in judge(measured, ids)]
    if options.out:
        drawn = figures(measured)
        draw(drawn, options.out / "figures")
        made_by = {"code": code, "environment": environment(platform.machine(), instructions=instructions())}
        written = json.dumps({**made_by, "findings": findings, "figures": drawn}, indent=1)
        write_atomically(options.out / "theory.json", written + "\n")
    if options.json:
        print(json.dumps(findings, indent=1))
    else:
        Console().print(terminal_table(findings))
        if not options.full and any(finding["verdict"] == "inconclusive" for finding in findings):
            print("--full measures every width and depth over 10 seeds, which decides more (about ten minutes)")
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
