"""All schemes under one protocol, as tables and as data: their ranking, and what they cost."""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from ln_repro.claims.arena import REFERENCE, Entry, arms_of
from ln_repro.claims.ceilings import Ceiling
from ln_repro.claims.criteria import Count
from ln_repro.claims.evidence import Evidence
from ln_repro.claims.words import named
from ln_repro.records.archive import Costs, Run
from ln_repro.records.events import json_ready
from ln_repro.report.tables import Table

COLUMNS = ("scheme", "BLEU", "seeds", "rate", "ramp", "rank", "P", "epochs", "w/o", "w/")
NOTES = (
    "BLEU: mean at the rate of lowest validation loss, with or without a ramp (warm-up)",
    "rank: 95 % bootstrap interval over seeds at the chosen rate (too narrow with only three)",
    "P: probability that a run has a higher BLEU than one of Pre-LN (ties count half), likewise",
    "epochs: number needed to reach Pre-LN's loss halfway through training, relative to Pre-LN; it also depends on the "
    "rate and the ramp",
    "w/o, w/: largest rate at which four fifths of at least three seeds train, without and with a ramp; +: or larger",
)
COST_COLUMNS = ("scheme", "sensitivity", "uneven at start", "later", "seeds", "batches", "time", "memory")
COST_NOTES = (
    "sensitivity to the rate, without a ramp: mean NLL over the rates that all schemes with three or more rates share, "
    "minus that at the scheme's best rate, in bits; NLLs are capped at that of a model that ignores the source",
    "uneven: largest over smallest gradient of W2 in a decoder layer, before training and the largest at six points "
    "during it; geometric mean over the seeds that were probed, by the mean gradient of so many mini-batches (the "
    "fewer, the more noise)",
    "time, memory: of an update, relative to Pre-LN's, on Multi30k (results/bench/schemes.json); memory is what the "
    "forward pass keeps for the backward pass",
)


RATE_NOTE = "seeds that train, by peak learning rate (lowest and highest BLEU; 0 if numbers became infinite or NaN)"


def arena_tables(entries: Sequence[Entry], costs: Costs) -> list[Table]:
    """Return the table of the ranking and that of the costs, with one row per scheme, the best first."""
    return [
        {"columns": [*COLUMNS], "rows": [_row(entry) for entry in entries], "notes": [*NOTES]},
        {"columns": [*COST_COLUMNS], "rows": [_cost(entry, costs) for entry in entries], "notes": [*COST_NOTES]},
    ]


def by_rate(evidence: Evidence, entries: Sequence[Entry]) -> list[Table]:
    """Return two tables, without and with warm-up: each scheme's seeds that train and their BLEU, by learning rate."""
    tables = []
    for arms in zip(*(arms_of(entry.scheme) for entry in entries), strict=True):
        curves = [evidence.curve(arm) for arm in arms]
        rates = sorted({rate for curve in curves for rate in curve})
        rows = [
            [named(entry.scheme), *(_cell(evidence, curve[rate]) if rate in curve else "-" for rate in rates)]
            for entry, curve in zip(entries, curves, strict=True)
        ]
        tables.append({"columns": ["scheme", *(f"{rate:g}" for rate in rates)], "rows": rows, "notes": [RATE_NOTE]})
    return tables


def _cell(evidence: Evidence, runs: Sequence[Run]) -> str:
    trained, bleus = Count.of(evidence.trained, runs), [run.bleu for run in runs]
    return f"{trained.hits}/{trained.runs} ({min(bleus):.1f}-{max(bleus):.1f})"


def _row(entry: Entry) -> list[str]:
    low, high = f"{math.floor(entry.rank[0])}", f"{math.ceil(entry.rank[1])}"
    return [
        named(entry.scheme), f"{fmean(entry.bleus):.1f}", f"{len(entry.bleus)}", f"{entry.rate:g}",
        "yes" if "_warm" in entry.arm else "no", low if low == high else f"{low}-{high}",
        "{:.2f}-{:.2f}".format(*entry.improvement.interval) if entry.improvement else "-",
        f"{entry.epochs:.2f}" if math.isfinite(entry.epochs) else "-",
        _limit(entry.without), _limit(entry.with_ramp),
    ]  # fmt: skip


def _cost(entry: Entry, costs: Costs) -> list[str]:
    cost = _time_and_memory(entry, costs)
    return [
        named(entry.scheme),
        "-" if entry.sensitivity is None else f"{entry.sensitivity:.2f}",
        *([f"{number:.3g}" for number in entry.unevenness] if entry.unevenness else ["-"] * 4),
        *([f"{number:.2f}" for number in cost] if cost else ["-", "-"]),
    ]


def _time_and_memory(entry: Entry, costs: Costs) -> tuple[float, float] | None:
    """Return the time and the memory of an update over those of Pre-LN; None if they were not measured."""
    if entry.scheme == REFERENCE:
        return 1.0, 1.0
    cost = costs.get(entry.scheme)
    return (1 / cost["ratio"], cost["saved"]) if cost else None


def _limit(ceiling: Ceiling) -> str:
    if ceiling.rate is None:
        return "-" if ceiling.above is None else f"<{ceiling.above:g}"
    return f"{ceiling.rate:g}{'+' if ceiling.above is None else ''}"


def arena_data(entries: Sequence[Entry], costs: Costs) -> list[dict[str, Any]]:
    """Return the numbers of both tables for JSON, one object per scheme; those that are unknown or infinite are None.

    A ceiling has the largest ``rate`` at which the scheme trains and the next one ``above`` it, at which it does not;
    both are None if it may be under-trained at all of them; it is None if no rate has enough seeds.
    """
    found: list[dict[str, Any]] = []
    for entry in entries:
        without, with_ramp = ({"rate": limit.rate, "above": limit.above} if limit.rates else None
                              for limit in (entry.without, entry.with_ramp))  # fmt: skip
        time, memory = _time_and_memory(entry, costs) or (None, None)
        improvement, interval = entry.improvement or (None, None)
        start, later, probed, batches = entry.unevenness or [None] * 4
        found.append(json_ready({
            "scheme": entry.scheme, "arm": entry.arm, "rate": entry.rate, "bleu": entry.bleus, "rank": entry.rank,
            "improvement": improvement, "improvement_interval": interval, "epochs": entry.epochs,
            "ceiling_without_warmup": without, "ceiling_with_warmup": with_ramp, "sensitivity": entry.sensitivity,
            "unevenness": entry.unevenness and [start, later], "probed_seeds": probed, "probe_batches": batches,
            "time": time, "memory": memory,
        }))  # fmt: skip
    return found
