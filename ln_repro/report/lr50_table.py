"""The table of LR50 by placement and warm-up, of the exploratory runs and of the replication."""

import math
from collections.abc import Mapping

from ln_repro.claims.evidence import Evidence
from ln_repro.claims.lr50 import CELLS, FACTORS, Lr50, lr50
from ln_repro.claims.metrics import Effect
from ln_repro.claims.rates import CURVE_SEEDS
from ln_repro.claims.words import arm_words, named
from ln_repro.report.tables import Table

ARMS = [arm for arms in CELLS.values() for arm in arms]
NOTES = [
    "LR50: the peak learning rate at which half of the seeds train, median and 95 % interval (logistic regression of "
    "trained on log2(rate) from the best rate on). Below the four arms: the ratio of two of them, by what they differ "
    "in. A run trains at 0.88 of the BLEU of the best arm or more. Replication: seeds above 100, which were run after "
    "the rules had been fixed."
]


def lr50_table(exploratory: Mapping[str, Evidence], replication: Mapping[str, Evidence]) -> Table:
    """Return a column for each setting in which two of the arms or more have `CURVE_SEEDS`, exploratory ones first."""
    columns: dict[str, list[str]] = {}
    for suffix, settings in (("", exploratory), (", replication", replication)):
        for name, evidence in sorted(settings.items()):
            limits = {arm: limit for arm in ARMS if (limit := lr50(evidence, arm))
                      and max(count.runs for count in limit.counts.values()) >= CURVE_SEEDS}  # fmt: skip
            if len(limits) > 1:
                columns[named(name) + suffix] = [cell(limits.get(arm)) for arm in ARMS] + [
                    _factor(limits.get(arm), limits.get(other)) for arm, other in FACTORS.values()
                ]
    heads = [*map(arm_words, ARMS), *FACTORS]
    rows = [[head, *cells] for head, *cells in zip(heads, *columns.values(), strict=True)]
    return {"columns": ["LR50", *columns], "rows": rows, "notes": NOTES}


def cell(limit: Lr50 | None, brief: bool = False) -> str:
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


def _factor(limit: Lr50 | None, other: Lr50 | None) -> str:
    if limit is None or other is None:
        return "-"
    value, interval = limit.over(other)
    unknown = math.isnan(value) or (math.isinf(value) and interval[0] < 1)  # a bound that says nothing
    return "-" if unknown else str(Effect(value, interval, "x{}", ".2g"))
