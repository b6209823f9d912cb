"""Claims as tables, and as text for a terminal: what the paper says, and the effects that were found."""

import math
import textwrap
from collections.abc import Iterator, Sequence

from rich.table import Table as TerminalTable
from rich.text import Text

from ln_repro.claims.intervals import CONTRADICTED, INCONCLUSIVE, NOT_RUN, REPRODUCED
from ln_repro.claims.judge import UNJUDGED, Judged, Row
from ln_repro.claims.words import ends_words, named
from ln_repro.report.tables import Table
from ln_repro.system.files import Json

LEADING = ("MT-1.anchored", "MT-4", "MT-5.bleu")
"""The claims in the README: whether warm-up is needed, whether Pre-LN is as good, whether it is faster."""
SYMBOLS = {REPRODUCED: "✓", CONTRADICTED: "✗", INCONCLUSIVE: "?", NOT_RUN: "–"}
COLOURS = {REPRODUCED: "green", CONTRADICTED: "red", INCONCLUSIVE: "yellow", NOT_RUN: "dim"}
SMALL = ("toy", "multi30k")
"""Corpora with a column of their own; those of real text that are larger share one."""
MODELS = {"multi30k": "3+3 layers, "}
"""The model of a setting that is judged where the usual one of its corpus was not run."""
LEGEND = (
    "✓ reproduced, ✗ contradicted, ? not decided, · shown without a verdict. Effects with their 95 % interval over "
    'seeds. Last column: whether the rule was written before the runs or amended after them, "replicated" once new '
    "seeds agree, and the claim's id."
)
INDENT = 13


def claims_table(rows: Sequence[Row]) -> Table:
    """Return one row per claim about training that was run, with its effect on each corpus; ids come last."""
    cells = []
    for row in rows:
        by_corpus = {judged.data: judged for judged in row.others}
        larger = [judged for corpus, judged in by_corpus.items() if corpus not in SMALL]
        shown = [*map(by_corpus.get, SMALL), larger[-1] if larger else None]
        if row.others:
            cells.append([row.claim, row.number, *map(_cell, shown), f"{_rule(row)}\n{row.id}"])
    columns = ["claim", "paper", "toy", "Multi30k", "other text", "rule, id"]
    return {"columns": columns, "rows": cells, "notes": [LEGEND]}


def theory_table(rows: Sequence[Row]) -> Table:
    """Return one row per claim that is checked without training."""
    cells = [[row.claim, row.number, f"{SYMBOLS[row.own.verdict]} {row.own.ours or '-'}", row.own.note or None, row.id]
             for row in rows if row.theory]  # fmt: skip
    return {"columns": ["claim, at initialisation", "paper", "measured", "note", "id"], "rows": cells}


def _cell(judged: Judged | None) -> str | None:
    """Return symbol, effect, seeds and note, in two lines."""
    if judged is None:
        return None
    effect = judged.effect and not math.isnan(judged.effect.value) and str(judged.effect)
    corpus = MODELS.get(judged.setting, "") if judged.data in SMALL else f"{named(judged.data)}, "
    unjudged = judged.note == UNJUDGED
    note = f", {judged.note}" if judged.note and not unjudged else ""
    symbol = "·" if unjudged else SYMBOLS[judged.verdict]
    return f"{symbol} {effect or judged.ours.partition(';')[0]}\n{corpus}{_seeds(judged)}{note}"


def _seeds(judged: Judged) -> str:
    return f"{judged.seeds} seed{'' if judged.seeds == 1 else 's'}"


def _rule(row: Row) -> str:
    """Return whether the rule preceded the runs, and what the replication says."""
    words = "amended" if any(judged.older for judged in row.others) else "before"
    replicated = {judged.replicated for judged in row.others} - {None, INCONCLUSIVE}
    return f"{words}, replicated" if replicated == {row.others[0].verdict} else words


def overview(rows: Sequence[Row]) -> Iterator[TerminalTable]:
    """Yield the claims about training with their effects, then those about initialisation; empty ones are left out."""
    styles = {symbol: COLOURS[verdict] for verdict, symbol in SYMBOLS.items()}
    for content in (claims_table(rows), theory_table(rows)):
        if content["rows"]:
            table = TerminalTable(box=None, padding=(0, 1, 1, 0), pad_edge=False)
            for column in content["columns"]:
                last = column == content["columns"][-1]
                table.add_column(column, style="dim" if last else "", no_wrap=last)
            for cells in content["rows"]:
                table.add_row(*(Text(cell or "", styles.get((cell or " ")[0], "")) for cell in cells))
            yield table


def terminal_table(findings: Sequence[Json]) -> TerminalTable:
    """Return one row per finding of the theory for a terminal of 80 columns."""
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
    notes = [judged.note, _seeds(judged) if judged.seeds else ""]
    if judged.replicated:
        notes += [f"new seeds: {judged.replicated}", f"exploratory: {judged.explored}" if judged.explored else ""]
    heading = Text(f"\n{place}: ").append(judged.verdict, COLOURS[judged.verdict])
    yield heading.append(f" ({', '.join(filter(None, notes))})" if any(notes) else "")
    dated = f" ({judged.written}: {judged.source})" if judged.written else ""
    fields = {"found": judged.ours, "new seeds": judged.replication, "rule": judged.rule and judged.rule + dated,
              "needs": judged.needs}  # fmt: skip
    for label, words in fields.items():
        if words:
            yield _field(label, words, width)
    if judged.needs:
        yield Text(f"{'  run':{INDENT}}{judged.command}{cost}")  # on one line so that it can be copied
    if judged.evidence:
        older = f", {judged.older} of them made before the rule" if judged.older else ""
        code = f", by code {', '.join(judged.code)}"
        yield _field("records", f"{len(judged.evidence)}{older}{code}: {', '.join(judged.evidence)}", width)


def _field(label: str, words: str, width: int) -> Text:
    return Text(textwrap.fill(
        words, width, initial_indent=f"  {label:{INDENT - 2}}", subsequent_indent=" " * INDENT,
        break_long_words=False, break_on_hyphens=False,
    ))  # fmt: skip
