"""`ln-repro tables`, `figures` and `claims`: what the kept records say."""

import argparse
import json
import sys
from collections.abc import Sequence

from ln_repro.errors import UserError
from ln_repro.verbs.messages import say


def tables_verb(options: argparse.Namespace) -> int:
    """`tables`."""
    from ln_repro.compose import named
    from ln_repro.report.records import read_kept, read_theory, records_folder
    from ln_repro.report.tables import render
    from ln_repro.report.written import all_tables

    folder = options.records or records_folder()
    kept = read_kept(folder)
    files = all_tables(kept.runs, read_theory(folder), named)
    print(render({name: table for tables in files.values() for name, table in tables.items()}, options.format))
    return complaints(kept.problems)


def figures_verb(options: argparse.Namespace) -> int:
    """`figures`."""
    from ln_repro.compose import named
    from ln_repro.disk import explained
    from ln_repro.report.evidence import gather, strays
    from ln_repro.report.figures import draw_all
    from ln_repro.report.records import read_kept, records_folder

    folder = options.records or records_folder()
    kept, results = read_kept(folder), folder.parent
    out = options.out or results / "figures"
    with explained(out, "--out"):
        drawn = draw_all(gather(kept.runs, named), results / "theory.json", out)
    for line in (*strays(kept.runs, named), *drawn.left_out):
        say(f"not drawn: {line}")
    print(*drawn.paths, sep="\n")
    return complaints(kept.problems)


def claims_verb(options: argparse.Namespace) -> int:
    """`claims`."""
    from rich.console import Console

    from ln_repro.compose import named
    from ln_repro.report.claims import claim_rows, terminal_table
    from ln_repro.report.evidence import gather
    from ln_repro.report.records import read_kept, read_theory, records_folder

    folder = options.records or records_folder()
    kept = read_kept(folder)
    rows = claim_rows(gather(kept.runs, named), read_theory(folder))
    known = [row["id"] for row in rows]
    if unknown := [name for name in options.ids if name not in known]:
        raise UserError(f"claims: there is no {', '.join(unknown)}; known: {', '.join(known)}")
    rows = [row for row in rows if not options.ids or row["id"] in options.ids]
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        Console().print(terminal_table(rows))
    return complaints(kept.problems)


def complaints(problems: Sequence[str]) -> int:
    """Say which records were left out; return the exit code."""
    for problem in problems:
        print(f"ln-repro: {problem}", file=sys.stderr)
    return 1 if problems else 0
