"""Every table that is written to files, by file."""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from statistics import fmean
from typing import Any

from ln_repro.claims.evidence import Evidence
from ln_repro.claims.intervals import NOT_NEGATIVE, PERCENT, Scale
from ln_repro.claims.judge import Row
from ln_repro.claims.rates import Ceiling, ceiling
from ln_repro.claims.sensitivity import LEAST_RATES, sensitivity, sensitivity_interval
from ln_repro.claims.words import spoken
from ln_repro.records.archive import Run
from ln_repro.records.record import decoded
from ln_repro.report.tables import Table, claims_table, render, run_tables
from ln_repro.report.theory import findings_table

SUFFIXES = {"md": "md", "csv": "csv", "latex": "tex", "json": "json"}
Files = dict[str, dict[str, Table]]
"""Tables by the file that they share."""


def written(files: Files) -> dict[str, str]:
    """Return the text of every file in every form, by its name."""
    return {
        f"{name}.{suffix}": render(tables, form) + "\n"
        for (name, tables), (form, suffix) in product(files.items(), SUFFIXES.items())
    }


def all_tables(
    runs: Sequence[Run], rows: Sequence[Row], evidence: Mapping[str, Evidence], findings: Sequence[Mapping[str, Any]]
) -> Files:
    """Return the tables of claims, of arms, of learning rates, of runs and of the theory.

    Args:
        runs: the records.
        rows: the claims (`ln_repro.claims.judge.claim_rows`).
        evidence: the runs by setting. Those that start from others' weights have no table of arms: an arm of theirs is
            as many as it has starts.
        findings: of the theory.
    """
    whole = {name: one for name, one in sorted(evidence.items()) if not one.starts}
    parts = {f"{name}{'-' * bool(what)}{what}": part for name, one in whole.items()
             for what, part in {"": one, **one.others}.items()}  # fmt: skip
    rates = {f"rates-{name}": table for name, part in parts.items() if (table := rates_table(part))["rows"]}
    return {
        "claims": {"claims": claims_table(rows)},
        "arms": {f"arms-{name}": arms_table(one) for name, one in whole.items()},
        **({"rates": rates} if rates else {}),
        "runs": run_tables([run.record for run in runs]),
        "theory": {"theory": findings_table(findings)} if findings else {},
    }


def arms_table(evidence: Evidence) -> Table:
    """Return every arm of a setting over its seeds: how many train, BLEU, NLL, skill, and learning-rate sensitivity."""
    columns = ["arm", "seeds", "BLEU tok.", "valid loss", "NLL"]
    if scored := _scored(evidence):
        columns += ["trains", "skill", "ceiling", "LR sensitivity"]
    return {"columns": columns, "rows": [arm_row(arm, evidence, scored) for arm in sorted(evidence.arms)]}


def arm_row(arm: str, evidence: Evidence, scored: bool) -> list[Any]:
    """Return an arm's cells."""
    runs = [run for _, run in sorted(evidence.arms[arm].items())]
    mixed = scored and 0 < sum(map(evidence.trained, runs)) < len(runs)
    cells = [arm, len(runs), cell([run.bleu for run in runs], PERCENT, mixed) if scored else None,
             cell([run.loss for run in runs], mixed=mixed), cell([run.nll for run in runs], mixed=mixed)]  # fmt: skip
    if not scored:
        return cells
    found = ceiling(evidence, arm)
    return [
        *cells,
        trains(evidence, runs),
        skill(evidence, runs),
        shown_ceiling(found),
        shown_sensitivity(evidence, arm),
    ]


def rates_table(evidence: Evidence) -> Table:
    """Return every arm that was run at several rates: at each, how many seeds train and fail, BLEU, NLL and skill."""
    columns = ["arm", "peak rate", "seeds", "trains", "fails", "BLEU tok.", "NLL", "skill"]
    rows, seen = [], set()
    for arm in sorted(evidence.rates):
        curve = evidence.curve(arm)
        ids = tuple(run.record["id"] for runs in curve.values() for run in runs)
        if len(curve) < LEAST_RATES or ids in seen or not _scored(evidence):
            continue  # an arm of another name is the same at another rate
        seen.add(ids)
        for rate, runs in curve.items():
            hits, failed = sum(map(evidence.trained, runs)), sum(map(evidence.failed, runs))
            mixed = 0 < hits < len(runs)
            rows.append([arm, f"{rate:g}", len(runs), trains(evidence, runs), f"{failed}/{len(runs)}",
                         cell([run.bleu for run in runs], PERCENT, mixed), cell([run.nll for run in runs], mixed=mixed),
                         skill(evidence, runs)])  # fmt: skip
    return {"columns": columns, "rows": rows}


def _scored(evidence: Evidence) -> bool:
    """Return whether anything was translated."""
    return any(decoded(run.record) for arm in evidence.rates.values() for runs in arm.values() for run in runs.values())


def cell(values: Sequence[float], scale: Scale = NOT_NEGATIVE, mixed: bool = False) -> str:
    """Return the mean with its interval; where runs ended without a number, how many did."""
    if lost := sum(not math.isfinite(value) for value in values):
        return f"none in {lost} of {len(values)}"
    return spoken(values, scale, mixed)


def trains(evidence: Evidence, runs: Sequence[Run]) -> str:
    """Return how many of the runs train."""
    return f"{sum(map(evidence.trained, runs))}/{len(runs)}"


def skill(evidence: Evidence, runs: Sequence[Run]) -> str | None:
    """Return the mean skill; None where it is not known."""
    values = [evidence.skill(run) for run in runs if math.isfinite(run.nll)]
    return None if not values or any(map(math.isnan, values)) else f"{fmean(values):.2f}"


def shown_ceiling(found: Ceiling) -> str | None:
    """Return a ceiling in words; None where too few rates were run."""
    return found.words() if len(found.rates) >= LEAST_RATES else None


def shown_sensitivity(evidence: Evidence, arm: str) -> str | None:
    """Return an arm's learning-rate sensitivity in bits with its interval; None where too few rates were run."""
    curve = {rate: [run.nll for run in runs] for rate, runs in evidence.curve(arm).items()}
    limit = evidence.entropies.get("source_blind_bits")
    if len(curve) < LEAST_RATES or limit is None:
        return None
    low, high = sensitivity_interval(curve, limit)
    interval = f" [{low:.2f}, {high:.2f}]" if math.isfinite(low) else ""
    return f"{sensitivity(curve, limit):.2f}{interval}"
