"""The table of all schemes under one protocol."""

import math
from collections.abc import Sequence
from statistics import fmean

from ln_repro.claims.arena import REFERENCE, Entry
from ln_repro.claims.rates import Ceiling
from ln_repro.claims.words import SCHEMES
from ln_repro.report.tables import Table

COLUMNS = ("scheme", "BLEU", "seeds", "rate", "ramp", "rank", "P", "epochs", "max w/o", "max w/", "sens.")
NOTES = (
    "BLEU: mean at the rate of lowest validation loss, with or without a ramp (warm-up)",
    "rank: 95 % bootstrap interval over seeds",
    "P: probability that a seed beats one of Pre-LN",
    "epochs: to the loss that Pre-LN has after half of its training, over those of Pre-LN",
    "max w/o, w/: largest rate at which 4 of 5 seeds train, without and with a ramp; +: or larger",
    "sens.: mean NLL over all rates minus that of the best, without a ramp, in bits",
)


def arena_table(entries: Sequence[Entry]) -> Table:
    """Return one row per scheme, the best first."""
    return {"columns": [*COLUMNS], "rows": [_row(entry) for entry in entries], "notes": [*NOTES]}


def _row(entry: Entry) -> list[str]:
    low, high = (f"{round(rank)}" for rank in entry.rank)
    return [
        SCHEMES.get(entry.scheme, entry.scheme), f"{fmean(entry.bleus):.1f}", f"{len(entry.bleus)}", f"{entry.rate:g}",
        "yes" if "_warm" in entry.arm else "no", low if low == high else f"{low}-{high}",
        "-" if entry.scheme == REFERENCE or math.isnan(entry.improvement) else f"{entry.improvement:.2f}",
        f"{entry.epochs:.2f}" if math.isfinite(entry.epochs) else "-",
        _limit(entry.without), _limit(entry.with_ramp),
        "-" if entry.sensitivity is None else f"{entry.sensitivity:.2f}",
    ]  # fmt: skip


def _limit(ceiling: Ceiling) -> str:
    if ceiling.rate is None:
        return f"<{min(ceiling.rates):g}" if ceiling.rates else "-"
    return f"{ceiling.rate:g}{'+' if ceiling.above is None else ''}"
