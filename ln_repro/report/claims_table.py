"""Claims as tables: what the paper says, and the effects that were found."""

import math
from collections.abc import Sequence

from ln_repro.claims.intervals import CONTRADICTED, INCONCLUSIVE, NOT_RUN, REPRODUCED
from ln_repro.claims.judge import UNJUDGED, Judged, Row
from ln_repro.claims.words import named
from ln_repro.report.tables import Table

LEADING = ("MT-1.anchored", "MT-4", "MT-5.bleu")
"""The claims in the README: whether warm-up is needed, whether Pre-LN is as good, whether it is faster."""
SYMBOLS = {REPRODUCED: "✓", CONTRADICTED: "✗", INCONCLUSIVE: "?", NOT_RUN: "–"}
SMALL = ("toy", "multi30k")
"""Corpora with a column of their own; those of real text that are larger share one."""
MODELS = {"multi30k": "3+3 layers, "}
"""The model of a setting that is judged where the usual one of its corpus was not run."""
LEGEND = (
    "✓ reproduced, ✗ contradicted, ? not decided, · shown without a verdict. Effects with their 95 % interval over "
    'seeds. Last column: whether the rule was written before the runs or amended after them, "replicated" once new '
    "seeds agree, and the claim's id."
)


def claims_table(rows: Sequence[Row]) -> Table:
    """Return one row per claim about training that was run, with its effect on each corpus; ids come last."""
    shown = [row for row in rows if row.others]
    cells = [
        [row.claim, row.number, *map(_cell, _columns(row)), f"{_rule(row)}\n{row.id}"] for row in shown
    ]  # fmt: skip
    columns = ["claim", "paper", "toy", "Multi30k", "other text", "rule, id"]
    return {"columns": columns, "rows": cells, "notes": [LEGEND]}


def theory_table(rows: Sequence[Row]) -> Table:
    """Return one row per claim that is checked without training."""
    cells = [[row.claim, row.number, f"{SYMBOLS[row.own.verdict]} {row.own.ours or '-'}", row.own.note or None, row.id]
             for row in rows if row.theory]  # fmt: skip
    return {"columns": ["claim, at initialisation", "paper", "measured", "note", "id"], "rows": cells}


def _columns(row: Row) -> list[Judged | None]:
    """Return the results of a claim on toy, on Multi30k, and on the largest other corpus."""
    by_corpus = {judged.data: judged for judged in row.others}
    larger = [judged for corpus, judged in by_corpus.items() if corpus not in SMALL]
    return [*map(by_corpus.get, SMALL), larger[-1] if larger else None]


def _cell(judged: Judged | None) -> str | None:
    """Return symbol, effect, seeds and note, in two lines."""
    if judged is None:
        return None
    effect = judged.effect and not math.isnan(judged.effect.value) and str(judged.effect)
    first = judged.ours.partition(";")[0]
    corpus = MODELS.get(judged.setting, "") if judged.data in SMALL else f"{named(judged.data)}, "
    details = f"{corpus}{judged.seeds} seed{'' if judged.seeds == 1 else 's'}"
    if judged.note == UNJUDGED:
        return f"· {effect or first}\n{details}"
    note = f", {judged.note}" if judged.note else ""
    return f"{SYMBOLS[judged.verdict]} {effect or first}\n{details}{note}"


def _rule(row: Row) -> str:
    """Return whether the rule preceded the runs, and what the replication says."""
    words = "amended" if any(judged.older for judged in row.others) else "before"
    replicated = {judged.replicated for judged in row.others} - {None, INCONCLUSIVE}
    return f"{words}, replicated" if replicated == {row.others[0].verdict} else words
