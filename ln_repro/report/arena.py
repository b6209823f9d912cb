"""All schemes under one protocol, as a table and as data."""

from collections.abc import Sequence

from ln_repro.claims.arena import REFERENCE, Entry, arms_of
from ln_repro.claims.evidence import Evidence
from ln_repro.claims.metrics import Count, Effect
from ln_repro.claims.rates import Range
from ln_repro.claims.words import named
from ln_repro.records.archive import Costs
from ln_repro.records.events import json_ready
from ln_repro.report.lr50_table import cell
from ln_repro.report.tables import Table
from ln_repro.system.files import Json

COLUMNS = ("scheme", "range w/o", "oct", "range w/", "LR50", "NLL", "sens.", "time", "mem.")
NOTES = (
    "range: lowest and highest peak rate at which four fifths of at least three seeds train, without and with warm-up; "
    "<, +: the lowest or highest rate that was run, so that it may go on; oct: width in octaves",
    "LR50: the rate at which half of the seeds train, without warm-up",
    "NLL: bits at the rate of lowest validation loss, with or without warm-up, and half of its 95 % interval",
    "sens.: sensitivity to the rate without warm-up: mean NLL over the rates that all schemes with three or more rates "
    "share, minus that at the scheme's best rate, in bits; NLLs are capped at that of a model that ignores the source",
    "time, mem.: of an update, relative to Pre-LN's, on Multi30k (results/bench/schemes.json); memory is what the "
    "forward pass keeps for the backward pass",
)
RATE_NOTE = "seeds that train, by peak learning rate"


def arena_table(entries: Sequence[Entry], costs: Costs) -> Table:
    """Return one row per scheme, the one with the widest range without warm-up first."""
    return {"columns": [*COLUMNS], "rows": [_row(entry, costs) for entry in entries], "notes": [*NOTES]}


def by_rate(evidence: Evidence, entries: Sequence[Entry]) -> list[Table]:
    """Return two tables, without and with warm-up: how many of each scheme's seeds train, by learning rate."""
    tables: list[Table] = []
    for arms in zip(*(arms_of(entry.scheme) for entry in entries), strict=True):
        curves = [evidence.curve(arm) for arm in arms]
        rates = sorted({rate for curve in curves for rate in curve})
        rows = [
            [named(entry.scheme), *(str(Count.of(evidence.trained, curve[rate])) if rate in curve else None
                                    for rate in rates)]
            for entry, curve in zip(entries, curves, strict=True)
        ]  # fmt: skip
        tables.append({"columns": ["scheme", *(f"{rate:g}" for rate in rates)], "rows": rows, "notes": [RATE_NOTE]})
    return tables


def _row(entry: Entry, costs: Costs) -> list[str | None]:
    cost = _time_and_memory(entry, costs)
    return [
        named(entry.scheme), str(entry.without or "none"), f"{entry.without.octaves:.0f}" if entry.without else None,
        str(entry.with_ramp or "none"),
        cell(entry.limit, brief=True), _with_half_width(entry.nll),
        None if entry.sensitivity is None else f"{entry.sensitivity:.2f}",
        *([f"{number:.2f}" for number in cost] if cost else (None, None)),
    ]  # fmt: skip


def _with_half_width(effect: Effect) -> str:
    low, high = effect.interval
    return f"{effect.value:.3f}±{(high - low) / 2:.3f}"


def _time_and_memory(entry: Entry, costs: Costs) -> tuple[float, float] | None:
    """Return the time and the memory of an update over those of Pre-LN; None if they were not measured."""
    if entry.scheme == REFERENCE:
        return 1.0, 1.0
    cost = costs.get(entry.scheme)
    return (1 / cost["ratio"], cost["saved"]) if cost else None


def arena_data(entries: Sequence[Entry], costs: Costs) -> list[Json]:
    """Return the numbers of the table for JSON, one object per scheme; those that are unknown or infinite are None."""

    def limits(found: Range | None) -> Json | None:
        if found is None:
            return None
        return {"low": found.low, "high": found.high, "octaves": found.octaves, "open": [*found.open]}

    data = []
    for entry in entries:
        time, memory = _time_and_memory(entry, costs) or (None, None)
        limit = entry.limit
        data.append(json_ready({
            "scheme": entry.scheme, "range_without_warmup": limits(entry.without),
            "range_with_warmup": limits(entry.with_ramp), "lr50": limit and limit.median,
            "lr50_interval": limit and limit.interval, "arm": entry.arm, "rate": entry.rate, "nll": entry.nll.value,
            "nll_interval": entry.nll.interval, "seeds": entry.seeds, "sensitivity": entry.sensitivity, "time": time,
            "memory": memory,
        }))  # fmt: skip
    return data
