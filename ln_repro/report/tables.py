"""Tables, and their output as text."""

import csv
import html
import io
import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

DOCUMENTS = ("README.md", "docs/results.md", "docs/further.md")
"""Documents with tables in them, each between two marks that name it and say whether it is in Markdown or HTML."""
MARKED = re.compile(r"(<!-- (table|html): ([\w.-]+) -->\n).*?(<!-- /\2 -->\n)", re.DOTALL)
WIDTH = 100  # width of lines in HTML; a row in Markdown is one line
PADDED = 60  # columns of Markdown are aligned up to this width: a longer text would widen every row
LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "_%&$#{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}"}  # in LaTeX's default encoding, these signs are ¡ and ¿
    | {"✓": r"$\surd$", "✗": r"$\times$", "≥": r"$\geq$"}  # which LaTeX does not know by default
)


class Table(NamedTuple):
    """A table of cells that are printed as they are, "-" for None."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    notes: Sequence[str] = ()  # lines below the table, such as the signatures of its scores


def render(tables: Mapping[str, Table], form: str) -> str:
    """Return the tables as ``md``, ``csv``, ``latex`` (booktabs) or ``json``."""
    if form == "json":
        content = {name: {"columns": table.columns, "rows": table.rows} for name, table in tables.items()}
        return json.dumps(content, indent=1)
    renderer = {"md": markdown, "csv": comma_separated, "latex": latex}[form]
    return "\n".join(renderer(name, table) for name, table in tables.items()).rstrip()


def with_tables(text: str, files: Mapping[str, Mapping[str, Table]]) -> str:
    """Return the text of a document with the tables between its marks updated; unknown ones are left as they are."""
    tables = {name: table for of_file in files.values() for name, table in of_file.items()}

    def updated(match: re.Match[str]) -> str:
        begin, form, name, end = match.groups()
        if name not in tables:
            return match[0]
        table = hypertext(tables[name]) if form == "html" else markdown("", tables[name])
        return f"{begin}{table}{end}"

    return MARKED.sub(updated, text)


def hypertext(table: Table) -> str:
    """Return a table as HTML for a document in Markdown; every cell has a line of its own, so that lines are short."""
    heads = "".join(f"<th>{html.escape(column)}" for column in table.columns)
    cells = [[html.escape(_text(cell), quote=False).replace("\n", "<br>") for cell in row] for row in table.rows]
    rows = [f"<tr>{heads}", *("<tr>" + "\n".join(f"<td>{cell}" for cell in row) for row in cells)]
    notes = "".join(f"\n{textwrap.fill(note, WIDTH)}\n" for note in table.notes)
    return "\n".join(["<table>", *rows, "</table>"]) + f"\n{notes}"


def markdown(name: str, table: Table) -> str:
    """Return a table as Markdown, below its name if that is not empty."""
    cells = [
        [_text(cell).replace("|", r"\|").replace("\n", "<br>") for cell in row] for row in (table.columns, *table.rows)
    ]
    columns = [*zip(*cells, strict=True)]
    widths = [min(PADDED, max(map(len, column))) for column in columns]
    left = [not all(map(_is_number, column[1:])) for column in columns]

    def line(row: Sequence[str]) -> str:
        padded = (c.ljust(w) if is_left else c.rjust(w) for c, w, is_left in zip(row, widths, left, strict=True))
        return f"| {' | '.join(padded)} |"

    rule = "|".join("-" * (w + 2) if is_left else "-" * (w + 1) + ":" for w, is_left in zip(widths, left, strict=True))
    notes = "".join(f"\n{note}\n" for note in table.notes)
    heading = f"### {name}\n\n" if name else ""
    return heading + "\n".join([line(cells[0]), f"|{rule}|", *map(line, cells[1:])]) + f"\n{notes}"


def comma_separated(name: str, table: Table) -> str:
    """Return a table as CSV with its name in the first column."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["table", *table.columns])
    writer.writerows([name, *(_text(cell) for cell in row)] for row in table.rows)
    return out.getvalue()


def latex(name: str, table: Table) -> str:
    """Return a table as a LaTeX tabular with booktabs rules."""
    rows = [table.columns, *([_text(cell) for cell in row] for row in table.rows)]
    lines = [" & ".join(cell.translate(LATEX) for cell in row) + r" \\" for row in rows]
    head = [f"% {name}", r"\begin{tabular}{" + "l" * len(table.columns) + "}", r"\toprule", lines[0], r"\midrule"]
    return "\n".join([*head, *lines[1:], r"\bottomrule", r"\end{tabular}", ""])


def _text(cell: object) -> str:
    return "-" if cell is None else str(cell)


def _is_number(cell: str) -> bool:
    return cell.replace(".", "", 1).removeprefix("-").isdecimal() or cell == "-"


def rounded(value: float | None, form: str) -> str | None:
    return None if value is None else f"{value:{form}}"


def rate_words(rate: float) -> str:
    """Return a learning rate as figures and page write it, without an exponent: 0.002."""
    return f"{rate:.7f}".rstrip("0").rstrip(".")
