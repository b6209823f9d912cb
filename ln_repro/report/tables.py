"""Tables of records, and the output of tables as text."""

import csv
import io
import json
from collections.abc import Mapping, Sequence

from ln_repro.records.record import AVERAGE, Record, Score
from ln_repro.system.files import Json

Table = Json
"""``columns`` (names), ``rows`` (cells) and optionally ``notes`` (lines below the table: signatures of its scores)."""

SCORES = {
    "test": "BLEU", "test_tokenised": "BLEU tok.", AVERAGE: "BLEU avg.", f"{AVERAGE}_tokenised": "BLEU avg. tok."
}  # fmt: skip
"""Names of columns by key in a record."""
OTHER_EPOCHS = "last, max: BLEU tok. after the last epoch, and at the epoch where it is highest"
LATEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "_%&$#{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)


def run_tables(records: Sequence[Record], own: Mapping[str, str]) -> dict[str, Table]:
    """Return one table of runs for each corpus and task; ``own`` are the settings of their own, by id."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        task = "" if record.decodes else f"-{record.axes.task}"
        groups.setdefault(f"runs-{record.corpus}{task}", []).append(record)
    return {name: runs_table(groups[name], own) for name in sorted(groups)}


def runs_table(records: Sequence[Record], own: Mapping[str, str]) -> Table:
    """Return one row per run with its scores at the epoch with the lowest validation loss, without empty columns.

    Beside them are the scores after the last epoch and the highest ones.
    """
    rows = [
        {
            "exp": record.exp, "overrides": own.get(record.id) or None, "seed": record.axes.seed,
            "valid loss": _rounded(record.lowest_loss, 3), "accuracy": _rounded(record.accuracy, 4),
            **{name: _rounded(score.score if score else None, 2) for name, score in _scores(record).items()},
            **_other_epochs(record), "status": record.status, "id": record.id,
        }
        for record in records
    ]  # fmt: skip
    columns = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    notes = [*[OTHER_EPOCHS] * ("last" in columns), *signatures(records)]
    return {"columns": columns, "rows": [[row[name] for name in columns] for row in rows], "notes": notes}


def _scores(record: Record) -> dict[str, Score | None]:
    return {name: getattr(record.bleu, key) for key, name in SCORES.items()}


def _other_epochs(record: Record) -> dict[str, str | None]:
    """Return the scores on tokens after the last epoch, and the highest of all epochs."""
    scores = [row.test_bleu_tokenised for row in record.epochs if row.test_bleu_tokenised is not None]
    return {"last": _rounded(scores[-1] if scores else None, 2), "max": _rounded(max(scores, default=None), 2)}


def signatures(records: Sequence[Record]) -> list[str]:
    """Return the distinct sacreBLEU signatures of the records' scores."""
    notes = []
    for name in SCORES.values():
        distinct = {score.signature for record in records if (score := _scores(record)[name])}
        notes += [f"{name}: {signature}" for signature in sorted(distinct)]
    return notes


def render(tables: dict[str, Table], form: str) -> str:
    """Return the tables as ``md``, ``csv``, ``latex`` (booktabs) or ``json``."""
    if form == "json":
        return json.dumps({name: {k: t[k] for k in ("columns", "rows")} for name, t in tables.items()}, indent=1)
    renderer = {"md": markdown, "csv": comma_separated, "latex": latex}[form]
    return "\n".join(renderer(name, table) for name, table in tables.items()).rstrip()


def markdown(name: str, table: Table) -> str:
    """Return a table as Markdown, with aligned columns."""
    cells = [[_text(cell).replace("|", r"\|").replace("\n", "<br>") for cell in row]
             for row in (table["columns"], *table["rows"])]  # fmt: skip
    columns = [*zip(*cells, strict=True)]
    widths = [max(map(len, column)) for column in columns]
    left = [not all(map(_is_number, column[1:])) for column in columns]

    def line(row: Sequence[str]) -> str:
        padded = (c.ljust(w) if is_left else c.rjust(w) for c, w, is_left in zip(row, widths, left, strict=True))
        return f"| {' | '.join(padded)} |"

    rule = "|".join("-" * (w + 2) if is_left else "-" * (w + 1) + ":" for w, is_left in zip(widths, left, strict=True))
    notes = "".join(f"\n{note}\n" for note in table.get("notes", []))
    return f"### {name}\n\n" + "\n".join([line(cells[0]), f"|{rule}|", *map(line, cells[1:])]) + f"\n{notes}"


def comma_separated(name: str, table: Table) -> str:
    """Return a table as CSV with its name in the first column."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["table", *table["columns"]])
    writer.writerows([name, *(_text(cell) for cell in row)] for row in table["rows"])
    return out.getvalue()


def latex(name: str, table: Table) -> str:
    """Return a table as a LaTeX tabular with booktabs rules."""
    rows = [table["columns"], *([_text(cell) for cell in row] for row in table["rows"])]
    lines = [" & ".join(cell.translate(LATEX) for cell in row) + r" \\" for row in rows]
    head = [f"% {name}", r"\begin{tabular}{" + "l" * len(table["columns"]) + "}", r"\toprule", lines[0], r"\midrule"]
    return "\n".join([*head, *lines[1:], r"\bottomrule", r"\end{tabular}", ""])


def _text(cell: object) -> str:
    return "-" if cell is None else str(cell)


def _is_number(cell: str) -> bool:
    return cell.replace(".", "", 1).removeprefix("-").isdecimal() or cell == "-"


def _rounded(value: float | None, digits: int) -> str | None:
    return None if value is None else f"{value:.{digits}f}"


def rate_words(rate: float) -> str:
    """Return a learning rate as figures and page write it, without an exponent: 0.002."""
    return f"{rate:.7f}".rstrip("0").rstrip(".")
