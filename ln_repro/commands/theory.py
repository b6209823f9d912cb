"""`ln-repro theory`: check the paper's lemmas, theorem and figure 3 without training."""

import argparse
import json
import platform
from dataclasses import replace

from rich.console import Console

from ln_repro.claims.judge import theory_rows
from ln_repro.claims.rules.th import STATEMENTS
from ln_repro.commands.messages import say
from ln_repro.errors import UserError
from ln_repro.records import provenance
from ln_repro.records.events import json_ready
from ln_repro.report.claims import SIGNS, overview
from ln_repro.report.figure_initialisation import draw_initialisation
from ln_repro.system.files import explained, write_atomically
from ln_repro.system.paths import runs_folder
from ln_repro.system.progress import progress
from ln_repro.theory import measurements
from ln_repro.theory.judge import figures, judge

LEAST_SEEDS = 10  # minimum number of seeds for an interval


def theory_command(options: argparse.Namespace) -> None:
    known = {name.lower(): name for name in STATEMENTS}
    if unknown := [name for name in options.only or () if name.lower() not in known]:
        raise UserError(
            f"--only: {', '.join(unknown)}: not among those that are checked without training, {', '.join(STATEMENTS)} "
            "(ln-repro claims shows all)"
        )
    ids = [known[name.lower()] for name in options.only or STATEMENTS]
    scale = measurements.FULL if options.full else measurements.QUICK
    if options.seeds is not None:
        if options.seeds < LEAST_SEEDS:
            raise UserError(f"--seeds: expected at least {LEAST_SEEDS}, which a verdict needs, got {options.seeds}")
        scale = replace(scale, seeds=options.seeds)
    if options.out:
        with explained(options.out, "--out"):
            options.out.mkdir(parents=True, exist_ok=True)
    planned, code = measurements.units(scale, ids), provenance.code()
    runs = runs_folder()
    with explained(runs, "LN_REPRO_RUNS"):
        (runs / "theory").mkdir(parents=True, exist_ok=True)
        with progress("measuring", len(planned), say, "quantities") as advance:
            measured = measurements.measure(planned, runs / "theory" / "measurements.jsonl", advance)
    findings = judge(measured, ids)
    if options.out:
        drawn = figures(measured)
        draw_initialisation(drawn, options.out / "figures")
        machine = {"device": platform.machine(), "instructions": measurements.instructions()}
        made_by = {"code": code, "environment": provenance.environment(machine)}
        written = json.dumps(json_ready({**made_by, "findings": findings, "figures": drawn}), indent=0)
        write_atomically(options.out / "theory.json", written + "\n")
    if options.json:
        print(json.dumps(findings, indent=1))
    else:
        Console().print(*overview(row for row in theory_rows(findings) if row.id in ids), SIGNS, sep="\n")
        for finding in findings:
            if finding["note"]:
                print(f"{finding['id']}: {finding['note']}")
