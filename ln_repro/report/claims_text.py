"""Text for a terminal: an overview of the verdicts, one claim with its rule and records, findings of the theory."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from ln_repro.claims.judge import Row
from ln_repro.claims.words import ends_words

COLOURS = {"reproduced": "green", "contradicted": "red", "inconclusive": "yellow"}
INDENT = 11


def overview(rows: Sequence[Row]) -> Table:
    """Return each claim with its verdicts on all kinds of data."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    for row in rows:
        verdicts = {other["data"]: other["verdict"] for other in row["other_corpora"]} | {_own(row): row["verdict"]}
        words = [Text(f"{data}: ").append(verdict, COLOURS.get(verdict, "dim")) for data, verdict in verdicts.items()]
        table.add_row(row["id"], Text(f"{row['claim']}\n") + Text(", ").join(words))
    return table


def terminal_table(findings: Sequence[Mapping[str, Any]]) -> Table:
    """Return one row per finding of the theory for a terminal of 80 columns."""
    table = Table(box=None, padding=(0, 2, 1, 0), pad_edge=False)
    table.add_column("claim", no_wrap=True)
    table.add_column("statement")
    table.add_column("paper", max_width=16)
    table.add_column("ours, 95 %", min_width=17)
    for finding in findings:
        claim = Text(f"{finding['id']}\n").append(finding["verdict"], COLOURS[finding["verdict"]])
        ours = f"{finding['quantity']}\n{ends_words(finding['interval'])}\n{finding['seeds']} seeds"
        table.add_row(claim, finding["statement"], finding["paper"], ours)
    return table


def details(row: Row, width: int) -> Iterator[Text]:
    """Yield a claim line by line: what the paper says, then verdict, rule, records and needs on each kind of data."""
    yield Text(f"{row['id']}: {row['claim']}", "bold")
    yield _field("paper", f"{row['paper']} ({row['place']})", width)
    for other in row["other_corpora"]:
        yield from _judged(other["data"], other, width)
    hours = row["cost_gpu_hours"]
    yield from _judged(_own(row), row, width, f"   # about {hours:g} GPU hours" * bool(hours))


def _own(row: Row) -> str:
    """Return what a claim's own verdict is about."""
    return "paper's data" if row["written"] else "theory"


def _judged(data: str, part: Mapping[str, Any], width: int, cost: str = "") -> Iterator[Text]:
    """Yield the verdict on one kind of data, what it rests on, and the command that would resolve it."""
    seeds = f" ({part['seeds']} seed{'s' * (part['seeds'] != 1)})" if part["seeds"] else ""
    yield Text(f"\n{data}: ").append(part["verdict"], COLOURS.get(part["verdict"], "dim")).append(seeds)
    if part["ours"]:
        yield _field("found", part["ours"], width)
    dated = f" (written {part['written']}: {part['source']})" if part["written"] else ""
    if part["rule"]:
        yield _field("rule", part["rule"] + dated, width)
    if part["evidence"]:
        older = f", {part['older']} of them made before the rule" if part["older"] else ""
        code = f", by version{'s' * (len(part['code']) > 1)} {', '.join(part['code'])} of the code"
        yield _field("records", f"{len(part['evidence'])}{older}{code}: {', '.join(part['evidence'])}", width)
    if part["needs"]:
        yield _field("needs", part["needs"], width)
        yield Text(f"{'  run':{INDENT}}{part['command']}{cost}")  # on one line so that it can be copied


def _field(label: str, words: str, width: int) -> Text:
    indented = textwrap.fill(
        words, width, initial_indent=f"  {label:{INDENT - 2}}", subsequent_indent=" " * INDENT,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return Text(indented)
