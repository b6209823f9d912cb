"""Claims as tables, and as text for a terminal: what the paper says, and the effects that were found."""

import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from ln_repro.claims.intervals import CONTRADICTED, INCONCLUSIVE, NOT_RUN, REPRODUCED
from ln_repro.claims.judge import UNJUDGED, Judged, Row
from ln_repro.claims.words import display_name, parted
from ln_repro.report.tables import Table
from ln_repro.system.progress import plural

LEADING = ("MT-1.anchored", "MT-4", "MT-5")
"""The claims in the README: whether warm-up is needed, whether Pre-LN is as good, whether it is faster."""
SYMBOLS = {REPRODUCED: "✓", CONTRADICTED: "✗", INCONCLUSIVE: "?", NOT_RUN: "–"}
COLOURS = {REPRODUCED: "green", CONTRADICTED: "red", INCONCLUSIVE: "yellow", NOT_RUN: "dim"}
SMALL = ("toy", "multi30k")  # corpora with a column of their own; those of real text that are larger share one
MODELS = {"multi30k": "3+3 layers", "iwsltsmall": "128 wide"}
"""The model of a setting that is judged where the usual one of its corpus was not run."""
SIGNS = "✓ reproduced, ✗ contradicted, ? not decided"
LEGEND = (
    f"{SIGNS}, · shown without a verdict. Effects with 95 % intervals. "
    'Saturated: above 95 BLEU, no verdict. Beside the id: rule written "before" the runs (or "before some runs") or '
    '"amended" after them; "replicated": new seeds agree.'
)
INDENT = 13
LISTED = 10  # maximum number of ids of records to list


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
    return Table(columns, cells, [LEGEND])


def theory_table(rows: Sequence[Row]) -> Table:
    """Return one row per claim that is checked without training."""
    cells = [
        [row.claim, row.number, f"{SYMBOLS[row.own.verdict]} {row.own.ours or '-'}", row.own.note or None, row.id]
        for row in rows
        if row.theory
    ]
    return Table(["claim, at initialisation", "paper", "measured", "note", "id"], cells)


def _cell(judged: Judged | None) -> str | None:
    """Return symbol, effect, seeds and note, in two lines."""
    if judged is None:
        return None
    symbol, effect, remarks = _measured(judged)
    corpus = "" if judged.data in SMALL else f"{display_name(judged.data)}, "
    return f"{symbol} {effect or '-'}\n{corpus}{remarks}"


def _measured(judged: Judged) -> tuple[str, str, str]:
    """Return the symbol of the verdict, the effect, and the number of seeds with a word on the model or the verdict."""
    effect = judged.effect and not math.isnan(judged.effect.value) and str(judged.effect)
    unjudged = judged.note == UNJUDGED
    seeds = plural(judged.seeds, "seed") if judged.seeds else "not all arms run" if judged.evidence else ""
    remarks = [MODELS.get(parted(judged.setting)[0], ""), seeds, "" if unjudged else judged.note]
    symbol = "·" if unjudged else SYMBOLS[judged.verdict]
    return symbol, effect or judged.ours.partition(";")[0], ", ".join(filter(None, remarks))


def _rule(row: Row) -> str:
    """Return whether the rule preceded the runs that count, and where new seeds agree with the first ones."""
    explored = [judged for judged in row.others if judged.explored]
    words = "amended" if any(judged.older for judged in explored) else "before"
    if not explored and any(judged.older for judged in row.others):
        words = "before some runs"
    agreeing = [judged.data for judged in explored if judged.replicated == judged.explored != INCONCLUSIVE]
    return f"{words}, replicated on {', '.join(map(display_name, agreeing))}" if agreeing else words


def overview(rows: Iterable[Row]) -> Iterator[RenderableType]:
    """Yield the claims that were tested for a terminal: each with what was found on every corpus, then rule and id."""
    styles = {SYMBOLS[verdict]: colour for verdict, colour in COLOURS.items()}
    for row in (row for row in rows if row.others or row.theory):
        yield Text(row.claim, "bold")
        for judged in row.others or [row.own]:
            symbol, effect, remarks = _measured(judged)
            corpus = f"{f'{display_name(judged.data)}:':10} " if row.others else ""
            words = f" {corpus}{effect or '-'}{f' ({remarks})' if remarks else ''}"
            yield Padding(Text(symbol, styles.get(symbol, "")).append(words, "default"), (0, 0, 0, 2))
        paper = "" if row.number == "-" else f"paper: {row.number};  "
        yield Padding(Text(paper).append(f"{row.id}{f', {_rule(row)}' if row.others else ''}", "dim"), (0, 0, 0, 4))


def details(row: Row, width: int) -> Iterator[Text]:
    """Yield a claim line by line: what the paper says, then verdict, rule, records and needs on each kind of data."""
    yield Text(f"{row.id}: {row.claim}", "bold")
    yield _field("paper", f"{row.paper} ({row.place})", width)
    for before, judged in zip([None, *row.others], row.others, strict=False):
        repeated = before and (before.rule, before.written) == (judged.rule, judged.written)
        yield from _judged(
            display_name(judged.data), replace(judged, rule="as above", written="") if repeated else judged, width
        )
    if row.own.rule or row.theory:
        hours = f"   # about {row.cost_gpu_hours:g} GPU hours" if row.cost_gpu_hours else ""
        yield from _judged("theory" if row.theory else "paper's data", row.own, width, hours)
    elif not row.others:  # a claim of ours without runs
        yield Text(f"\n{row.own.verdict}", COLOURS[row.own.verdict])
        yield _command(row.own)


def _judged(place: str, judged: Judged, width: int, cost: str = "") -> Iterator[Text]:
    """Yield the verdict on one kind of data, what it rests on, and the command that runs it."""
    seeds = [plural(judged.seeds, "seed")] if judged.seeds else []
    if judged.replicated and judged.explored:
        seeds += [f"new seeds: {judged.replicated}", f"exploratory: {judged.explored}"]
    heading = Text(f"\n{place}: ").append(judged.verdict, COLOURS[judged.verdict])
    yield heading.append(f" ({', '.join(seeds)})" if seeds else "")
    rule = judged.rule and f"{judged.rule}{f' ({judged.written}: {judged.source})' if judged.written else ''}"
    fields = {"found": judged.ours, "note": judged.note, "new seeds": judged.replication, "rule": rule,
              "needs": judged.needs}  # fmt: skip
    for label, words in fields.items():
        if words:
            yield _field(label, words, width)
    if judged.needs:
        yield _command(judged, cost)
    if judged.evidence:
        older = f", {judged.older} of them made before the rule" if judged.older else ""
        code = f", by code {', '.join(judged.code)}"
        hidden = len(judged.evidence) - LISTED
        ids = f"{', '.join(judged.evidence[:LISTED])}{f' and {hidden} more (--json)' if hidden > 0 else ''}"
        yield _field("records", f"{len(judged.evidence)}{older}{code}: {ids}", width)


def _command(judged: Judged, cost: str = "") -> Text:
    return Text(f"{'  run':{INDENT}}{judged.command}{cost}")  # on one line so that it can be copied


def _field(label: str, words: str, width: int) -> Text:
    return Text(textwrap.fill(
        words, width, initial_indent=f"  {label:{INDENT - 2}}", subsequent_indent=" " * INDENT,
        break_long_words=False, break_on_hyphens=False,
    ))  # fmt: skip
