"""The learning rates that arms and schemes take: LR50 by placement and warm-up, and all schemes under one protocol."""

import math
from collections.abc import Mapping, Sequence

from ln_repro.claims.arena import REFERENCE, Entry
from ln_repro.claims.evidence import Evidence
from ln_repro.claims.intervals import standard_error
from ln_repro.claims.lr50 import FACTORS, Lr50, arms_of, shown_lr50
from ln_repro.claims.rates import CURVE_SEEDS, Range
from ln_repro.claims.words import arm_words, display_name
from ln_repro.records.archive import Costs
from ln_repro.records.events import json_ready
from ln_repro.report.tables import Table
from ln_repro.system.files import Json

LR50_NOTE = (
    "LR50: the peak learning rate at which half of the seeds train, median and 95 % interval (logistic regression of "
    "trained on log2(rate) from the best rate on). Below the four arms: the ratio of two of them, by what they differ "
    "in. A run trains at 0.88 of the BLEU of the best arm or more. Replication: seeds above 100, which were run after "
    "the rules had been fixed. An arm that trains nowhere without warm-up is judged only "
    "at rates at which it trains with warm-up, and above: below, training may be too short. Rates with fewer than "
    "three seeds are left out."
)
COLUMNS = ("scheme", "range w/o", "oct", "range w/", "LR50", "NLL", "sens", "time", "mem")
NOTES = (
    "range: lowest and highest peak rate at which four fifths of at least three seeds train, without and with warm-up; "
    "<, +: the lowest or highest rate that was run, so that it may go on; oct: width in octaves, by which schemes are "
    "sorted",
    "LR50: the rate at which half of the seeds train, without warm-up",
    "NLL: bits at the rate of lowest validation loss, with or without warm-up, and half of its 95 % interval",
    "sens: sensitivity to the rate without warm-up: mean NLL over the rates that all schemes with three or more rates "
    "share, minus that at the scheme's best rate, in bits; NLLs are capped at that of a model that ignores the source",
    "time, mem: of an update, relative to Pre-LN's, on Multi30k (results/bench/schemes.json); memory is what the "
    "forward pass keeps for the backward pass",
)


def lr50_table(exploratory: Mapping[str, Evidence], replication: Mapping[str, Evidence]) -> Table:
    """Return a column for each setting with `CURVE_SEEDS` of several arms at several rates, exploratory ones first."""
    arms = [arm for scheme in ("postln", "preln") for arm in arms_of(scheme)]
    columns: dict[str, list[str]] = {}
    for suffix, settings in (("", exploratory), (", replication", replication)):
        for name, evidence in sorted(settings.items()):
            limits = {
                arm: limit
                for arm in arms
                if (limit := shown_lr50(evidence, arm))
                and max(count.runs for count in limit.counts.values()) >= CURVE_SEEDS
            }
            if len(limits) > 1 and len({rate for limit in limits.values() for rate in limit.counts}) > 1:
                columns[display_name(name) + suffix] = [limit_words(limits.get(arm)) for arm in arms] + [
                    str(limits[above].over(limits[below]) or "-") if {above, below} <= limits.keys() else "-"
                    for above, below in FACTORS.values()
                ]
    rows = zip([*map(arm_words, arms), *FACTORS], *columns.values(), strict=True) if columns else ()
    return Table(["LR50", *columns], [list(row) for row in rows], [LR50_NOTE])


def limit_words(limit: Lr50 | None, brief: bool = False) -> str:
    """Return an LR50 as text; without interval and number of runs if ``brief``."""
    if limit is None:
        return "-"
    low, high = limit.interval
    runs = "" if brief else f" ({sum(count.runs for count in limit.counts.values())} runs)"
    if math.isinf(limit.median):
        return f">{low:.2g}" if brief else f"above {low:.2g}{runs}"
    if not limit.median:
        return f"<{high:.2g}" if brief else f"below {high:.2g}{runs}"
    return f"{limit.median:.2g}" + ("" if brief else f" [{low:.2g}, {high:.2g}]")


def arena_table(entries: Sequence[Entry], costs: Costs) -> Table:
    """Return one row per scheme, the one with the widest range without warm-up first."""
    rows = []
    for entry in entries:
        low, high = entry.nll.interval
        rows.append([
            display_name(entry.scheme), str(entry.without or "none"),
            f"{'≥' if any(entry.without.open) else ''}{entry.without.octaves:.0f}" if entry.without else None,
            str(entry.with_ramp or "none"),
            limit_words(entry.limit, brief=True),
            None if math.isnan(entry.nll.value) else f"{entry.nll.value:.3f}±{(high - low) / 2:.3f}",
            *(None if number is None else f"{number:.2f}"
              for number in (entry.sensitivity, *_time_and_memory(entry, costs))),
        ])  # fmt: skip
    errors = [standard_error(costs[entry.scheme]["rounds"]) for entry in entries if entry.scheme in costs]
    notes = [f"the standard error of a time is at most {max(errors):.2f}"] if errors else []
    return Table(COLUMNS, rows, [*NOTES, *notes])


def _time_and_memory(entry: Entry, costs: Costs) -> tuple[float, float] | tuple[None, None]:
    """Return the time and the memory of an update over those of Pre-LN; None if they were not measured."""
    if entry.scheme == REFERENCE:
        return 1.0, 1.0
    cost = costs.get(entry.scheme)
    return (1 / cost["ratio"], cost["saved"]) if cost else (None, None)


def arena_data(entries: Sequence[Entry], costs: Costs) -> list[Json]:
    """Return the numbers of the table for JSON, one object per scheme; those that are unknown or infinite are None."""

    def ends(usable: Range | None) -> Json | None:
        return None if usable is None else {**vars(usable), "octaves": usable.octaves}

    data = []
    for entry in entries:
        time, memory = _time_and_memory(entry, costs)
        limit = entry.limit
        data.append(json_ready({
            "scheme": entry.scheme, "range_without_warmup": ends(entry.without),
            "range_with_warmup": ends(entry.with_ramp), "lr50": limit and limit.median,
            "lr50_interval": limit and limit.interval, "arm": entry.arm, "rate": entry.rate, "nll": entry.nll.value,
            "nll_interval": entry.nll.interval, "seeds": entry.seeds, "sensitivity": entry.sensitivity, "time": time,
            "memory": memory,
        }))  # fmt: skip
    return data
