"""What was found of the theory, as a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

STYLES = {"reproduced": "green", "contradicted": "red", "inconclusive": "yellow"}


def findings_table(findings: Sequence[Mapping[str, Any]]) -> Table:
    """Return one row a finding: id and verdict, statement, the paper's value, our interval over seeds of what.

    Made for 80 columns.
    """
    table = Table(box=None, padding=(0, 2, 1, 0), pad_edge=False)
    table.add_column("claim", no_wrap=True)
    table.add_column("statement", ratio=2)
    table.add_column("paper", ratio=1)
    table.add_column("ours, 95 %", min_width=16)
    for found in findings:
        low, high = ("-" if bound is None else f"{bound:.3g}" for bound in found["interval"])
        claim = Text(f"{found['id']}\n").append(found["verdict"], STYLES[found["verdict"]])
        table.add_row(claim, found["statement"], found["paper"], f"{found['quantity']}\n{low} .. {high}")
    return table
