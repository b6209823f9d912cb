"""Records to tables, and tables to text."""

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from rich.table import Table as TerminalTable
from rich.text import Text

from ln_repro.claims.judge import OTHER_CORPORA, Row
from ln_repro.records.record import AVERAGE, Record, accuracy, decoded, lowest_loss, task_of

Table = dict[str, Any]
"""``columns`` (names), ``rows`` (cells) and ``notes`` (lines below the table: the scores' signatures)."""

SCORES = {"test": "BLEU", "test_tokenised": "BLEU tok."}
AVERAGES = {AVERAGE: "BLEU avg.", f"{AVERAGE}_tokenised": "BLEU avg. tok."}
"""Columns by their key in a record; an average has one only where some record has it."""

STYLES = {"reproduced": "green", "contradicted": "red", "inconclusive": "yellow"}
"""Of verdicts, in a terminal."""
LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "_%&$#{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)


def run_tables(records: Sequence[Record]) -> dict[str, Table]:
    """Return one table for a corpus and what was learnt of it: every run, at the epoch of lowest validation loss."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        task = "" if decoded(record) else f"-{task_of(record)}"
        groups.setdefault(f"runs-{record['data']['name']}{task}", []).append(record)
    return {name: runs_table(groups[name]) for name in sorted(groups)}


def runs_table(records: Sequence[Record]) -> Table:
    """Return the scores of each run, at the epoch of lowest validation loss, and the id to reproduce it by."""
    scores = _scores(records)
    classified = any(accuracy(record) is not None for record in records)
    columns = ["exp", "seed", "valid loss", *(["accuracy"] if classified else []), *scores.values(), "status", "id"]
    return {
        "columns": columns,
        "rows": [_row(record, list(scores), classified) for record in records],
        "notes": signatures(records),
    }


def _scores(records: Sequence[Record]) -> dict[str, str]:
    """Return the columns that some record has a score for, or may have one for."""
    always = SCORES if any(map(decoded, records)) else {}
    return always | {key: name for key, name in AVERAGES.items() if any(key in record["bleu"] for record in records)}


def _row(record: Record, scores: Sequence[str], classified: bool) -> list[Any]:
    bleu = record["bleu"]
    return [
        record["exp"],
        record["axes"]["seed"],
        _rounded(lowest_loss(record), 3),
        *([_rounded(accuracy(record), 4)] if classified else []),
        *(_rounded((bleu.get(key) or {"score": None})["score"], 2) for key in scores),
        record["status"],
        record["id"],
    ]


def signatures(records: Sequence[Record]) -> list[str]:
    """Return what the BLEUs of ``records`` mean, each signature once."""
    notes = []
    for key, name in _scores(records).items():
        found = {record["bleu"][key]["signature"] for record in records if record["bleu"].get(key)}
        notes += [f"{name}: {signature}" for signature in sorted(found)]
    return notes


def render(tables: dict[str, Table], form: str) -> str:
    """Return the tables as ``md``, ``csv``, ``latex`` (booktabs) or ``json``."""
    if form == "json":
        return json.dumps({name: {k: t[k] for k in ("columns", "rows")} for name, t in tables.items()}, indent=1)
    renderer = {"md": markdown, "csv": comma_separated, "latex": latex}[form]
    return "\n".join(renderer(name, table) for name, table in tables.items()).rstrip()


def markdown(name: str, table: Table) -> str:
    """Return a table as Markdown, aligned so that it also reads well in a terminal."""
    cells = [[_text(cell).replace("|", r"\|") for cell in row] for row in (table["columns"], *table["rows"])]
    widths = [max(len(row[column]) for row in cells) for column in range(len(table["columns"]))]
    left = [not all(_is_number(row[column]) for row in cells[1:]) for column in range(len(widths))]

    def line(row: Sequence[str]) -> str:
        padded = (c.ljust(w) if is_left else c.rjust(w) for c, w, is_left in zip(row, widths, left, strict=True))
        return f"| {' | '.join(padded)} |"

    rule = "|".join("-" * (w + 2) if is_left else "-" * (w + 1) + ":" for w, is_left in zip(widths, left, strict=True))
    notes = "".join(f"\n{note}\n" for note in table.get("notes", []))
    return f"### {name}\n\n" + "\n".join([line(cells[0]), f"|{rule}|", *map(line, cells[1:])]) + f"\n{notes}"


def comma_separated(name: str, table: Table) -> str:
    """Return a table as CSV; its name is the first column."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["table", *table["columns"]])
    writer.writerows([name, *(_text(cell) for cell in row)] for row in table["rows"])
    return out.getvalue()


def latex(name: str, table: Table) -> str:
    """Return a table for LaTeX with booktabs."""
    rows = [table["columns"], *([_text(cell) for cell in row] for row in table["rows"])]
    lines = [" & ".join(cell.translate(LATEX) for cell in row) + r" \\" for row in rows]
    head = [f"% {name}", r"\begin{tabular}{" + "l" * len(table["columns"]) + "}", r"\toprule", lines[0], r"\midrule"]
    return "\n".join([*head, *lines[1:], r"\bottomrule", r"\end{tabular}", ""])


def _text(cell: Any) -> str:
    return "-" if cell is None else str(cell)


def _is_number(cell: str) -> bool:
    return cell.replace(".", "", 1).removeprefix("-").isdecimal() or cell == "-"


def _rounded(value: float | None, digits: int) -> str | None:
    return None if value is None else f"{value:.{digits}f}"


def claims_terminal(rows: Sequence[Row]) -> TerminalTable:
    """Return one row a claim, made for 80 columns; below it the same question on other data, or what is needed."""
    table = TerminalTable(box=None, padding=(0, 2, 1, 0), pad_edge=False)
    table.add_column("claim", no_wrap=True)
    table.add_column("statement", ratio=1)
    table.add_column("ours", ratio=1, overflow="fold")
    for row in rows:
        claim = Text(f"{row['id']}\n").append(row["verdict"], STYLES.get(row["verdict"], "dim"))
        lines = [row["ours"] or row["needs"], *(f"{o['data']}: {o['verdict']} ({o['ours']})" for o in row["elsewhere"])]
        if row["verdict"] == "not-run" and row["command"]:
            lines.append(f"{row['command']} (about {row['cost_gpu_hours']:g} GPU hours)")
        table.add_row(claim, f"{row['claim']}\npaper: {row['paper']}", "\n".join(lines))
    return table


def claims_table(rows: Sequence[Row]) -> Table:
    """Return one row a claim, for files."""
    columns = ["id", "claim", *OTHER_CORPORA, "paper's data", "paper", "ours"]
    return {"columns": columns, "rows": [claim_cells(row) for row in rows]}


def claim_cells(row: Row) -> list[Any]:
    """Return a claim's cells; on other data, the verdict and over how many seeds."""
    others = {other["data"]: f"{other['verdict']} ({other['seeds']})" for other in row["elsewhere"]}
    return [row["id"], row["claim"], *map(others.get, OTHER_CORPORA), row["verdict"], row["paper"], row["ours"]]
