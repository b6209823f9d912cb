"""Text for a terminal: the table of claims, one claim with its rule and records, findings of the theory."""

import textwrap
from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from ln_repro.claims.judge import Judged, Row
from ln_repro.claims.words import ends_words, named
from ln_repro.report.claims_table import SYMBOLS, claims_table, theory_table
from ln_repro.system.files import Json

COLOURS = {"reproduced": "green", "contradicted": "red", "inconclusive": "yellow"}
BY_SYMBOL = {SYMBOLS[verdict]: colour for verdict, colour in COLOURS.items()}
INDENT = 13


def overview(rows: Sequence[Row]) -> Iterator[Table]:
    """Yield the claims about training with their effects, then those about initialisation; empty ones are left out."""
    for content in (claims_table(rows), theory_table(rows)):
        if content["rows"]:
            table = Table(box=None, padding=(0, 1, 1, 0), pad_edge=False)
            for column in content["columns"]:
                last = column == content["columns"][-1]
                table.add_column(column, style="dim" if last else "", no_wrap=last)
            for cells in content["rows"]:
                table.add_row(*(Text(cell or "", style=BY_SYMBOL.get((cell or " ")[0], "")) for cell in cells))
            yield table


def terminal_table(findings: Sequence[Json]) -> Table:
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
    yield Text(f"{row.id}: {row.claim}", "bold")
    yield _field("paper", f"{row.paper} ({row.place})", width)
    for judged in row.others:
        yield from _judged(named(judged.data), judged, width)
    if row.own.rule or row.theory:
        hours = f"   # about {row.cost_gpu_hours:g} GPU hours" if row.cost_gpu_hours else ""
        yield from _judged("theory" if row.theory else "paper's data", row.own, width, hours)


def _judged(place: str, judged: Judged, width: int, cost: str = "") -> Iterator[Text]:
    """Yield the verdict on one kind of data, what it rests on, and the command that runs it."""
    heading = Text(f"\n{place}: ").append(judged.verdict, COLOURS.get(judged.verdict, "dim"))
    notes = [judged.note] if judged.note else []
    notes += [f"{judged.seeds} seed{'' if judged.seeds == 1 else 's'}"] if judged.seeds else []
    notes += [f"new seeds: {judged.replicated}"] if judged.replicated else []
    notes += [f"exploratory: {judged.explored}"] if judged.replicated and judged.explored else []
    yield heading.append(f" ({', '.join(notes)})" if notes else "")
    if judged.ours:
        yield _field("found", judged.ours, width)
    if judged.replication:
        yield _field("new seeds", judged.replication, width)
    if judged.rule:
        yield _field("rule", judged.rule + (f" ({judged.written}: {judged.source})" if judged.written else ""), width)
    if judged.needs:
        yield _field("needs", judged.needs, width)
        yield Text(f"{'  run':{INDENT}}{judged.command}{cost}")  # on one line so that it can be copied
    if judged.evidence:
        older = f", {judged.older} of them made before the rule" if judged.older else ""
        code = f", by code {', '.join(judged.code)}"
        yield _field("records", f"{len(judged.evidence)}{older}{code}: {', '.join(judged.evidence)}", width)


def _field(label: str, words: str, width: int) -> Text:
    indented = textwrap.fill(
        words, width, initial_indent=f"  {label:{INDENT - 2}}", subsequent_indent=" " * INDENT,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return Text(indented)
