"""`ln-repro claims`: one verdict per claim of the paper, with the evidence or the command that would produce it."""

import argparse
import json

from ln_repro.errors import UserError


def claims_verb(options: argparse.Namespace) -> int:
    """`claims`."""
    from rich.console import Console

    from ln_repro.compose import named_axes
    from ln_repro.report.claims import claim_rows, terminal_table
    from ln_repro.report.evidence import gather
    from ln_repro.report.records import read_runs, read_theory, records_folder

    folder = options.records or records_folder()
    rows = claim_rows(gather(read_runs(folder), named_axes), read_theory(folder))
    known = [row["id"] for row in rows]
    if unknown := [name for name in options.ids if name not in known]:
        raise UserError(f"claims: there is no {', '.join(unknown)}; known: {', '.join(known)}")
    rows = [row for row in rows if not options.ids or row["id"] in options.ids]
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        Console().print(terminal_table(rows))
    return 0
