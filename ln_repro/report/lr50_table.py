"""The table of LR50 by placement and warm-up, of the exploratory runs and of the replication."""

import math
from collections.abc import Mapping

from ln_repro.claims.ceilings import CURVE_SEEDS
from ln_repro.claims.evidence import Evidence
from ln_repro.claims.intervals import Interval
from ln_repro.claims.lr50 import CELLS, FACTORS, Lr50, lr50
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
            found = {arm: rate for arm in ARMS if (rate := lr50(evidence, arm))
                     and max(count.runs for count in rate.counts.values()) >= CURVE_SEEDS}  # fmt: skip
            if len(found) > 1:
                columns[named(name) + suffix] = [_cell(found.get(arm)) for arm in ARMS] + [
                    _factor(found.get(arm), found.get(other)) for arm, other in FACTORS.values()
                ]
    heads = [*map(arm_words, ARMS), *FACTORS]
    rows = [[head, *cells] for head, *cells in zip(heads, *columns.values(), strict=True)]
    return {"columns": ["LR50", *columns], "rows": rows, "notes": NOTES}


def _cell(found: Lr50 | None) -> str:
    if found is None:
        return "-"
    runs = sum(count.runs for count in found.counts.values())
    low, high = found.interval
    if math.isinf(found.median):
        return f"above {low:.2g} ({runs} runs)"
    return f"{found.median:.2g} {_ends(found.interval)}" if found.median else f"below {high:.2g} ({runs} runs)"


def _factor(found: Lr50 | None, other: Lr50 | None) -> str:
    if found is None or other is None:
        return "-"
    median, (low, high) = found.over(other)
    if math.isnan(median):
        return "-"
    return f"x at least {low:.2g}" if math.isinf(median) else f"x {median:.2g} {_ends((low, high))}"


def _ends(interval: Interval) -> str:
    return f"[{interval[0]:.2g}, {interval[1]:.2g}]"
