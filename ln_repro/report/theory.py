"""Tables of the theory's findings for the terminal and for files."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table as TerminalTable
from rich.text import Text

from ln_repro.claims.words import ends_words
from ln_repro.report.claims_text import COLOURS
from ln_repro.report.tables import Table

Findings = Sequence[Mapping[str, Any]]


def terminal_table(findings: Findings) -> TerminalTable:
    """Return one row per finding for a terminal of 80 columns."""
    table = TerminalTable(box=None, padding=(0, 2, 1, 0), pad_edge=False)
    table.add_column("claim", no_wrap=True)
    table.add_column("statement")
    table.add_column("paper", max_width=16)
    table.add_column("ours, 95 %", min_width=17)
    for finding in findings:
        claim = Text(f"{finding['id']}\n").append(finding["verdict"], COLOURS[finding["verdict"]])
        ours = f"{finding['quantity']}\n{ends_words(finding['interval'])}\n{finding['seeds']} seeds"
        table.add_row(claim, finding["statement"], finding["paper"], ours)
    return table


def findings_table(findings: Findings) -> Table:
    """Return one row per finding, including the rule for its verdict."""
    columns = ["id", "statement", "paper", "ours", "95 % interval", "seeds", "verdict", "rule"]
    rows = [[one["id"], one["statement"], one["paper"], one["quantity"], ends_words(one["interval"]), one["seeds"],
             one["verdict"], one["rule"]] for one in findings]  # fmt: skip
    return {"columns": columns, "rows": rows}
