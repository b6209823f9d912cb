"""Every table that is written to files, by file."""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from statistics import fmean, stdev
from typing import Any

from ln_repro.record import decoded
from ln_repro.report.claims import claim_rows, claims_table
from ln_repro.report.evidence import Evidence, Named, Quantity, Run, gather
from ln_repro.report.rules import bleu, loss
from ln_repro.report.tables import Table, render, run_tables
from ln_repro.report.theory import findings_table
from ln_repro.statistics import mean_interval

SUFFIXES = {"md": "md", "csv": "csv", "latex": "tex", "json": "json"}
Files = dict[str, dict[str, Table]]
"""Tables by the file that they share."""


def written(files: Files) -> dict[str, str]:
    """Return the text of every file in every form, by its name."""
    return {
        f"{name}.{suffix}": render(tables, form) + "\n"
        for (name, tables), (form, suffix) in product(files.items(), SUFFIXES.items())
    }


def all_tables(runs: Sequence[Run], findings: Sequence[Mapping[str, Any]], named: Named) -> Files:
    """Return the tables of claims, of arms, of runs and of the theory.

    Runs that start from others' weights have no table of arms: an arm of theirs is as many as it has starts.
    """
    evidence = gather(runs, named)
    return {
        "claims": {"claims": claims_table(claim_rows(evidence, findings))},
        "arms": {f"arms-{corpus}": arms_table(one) for corpus, one in sorted(evidence.items()) if not one.starts},
        "runs": run_tables([run.record for run in runs]),
        "theory": {"theory": findings_table(findings)} if findings else {},
    }


def arms_table(evidence: Evidence) -> Table:
    """Return mean, standard deviation and 95 % interval over the seeds of every arm of a corpus."""
    quantities = [("valid loss", loss, 3)]
    if any(decoded(run.record) for runs in evidence.arms.values() for run in runs.values()):
        quantities.insert(0, ("BLEU tok.", bleu, 2))
    columns = ["arm", "seeds", *(head for name, *_ in quantities for head in (name, "sd", "95 % interval"))]
    return {"columns": columns, "rows": [arm_row(arm, evidence, quantities) for arm in sorted(evidence.arms)]}


def arm_row(arm: str, evidence: Evidence, quantities: Sequence[tuple[str, Quantity, int]]) -> list[Any]:
    """Return an arm's cells: the quantities by name, what they are of a run, and their digits."""
    of_all = (spread(evidence.of(arm, of), digits) for _, of, digits in quantities)
    return [arm, len(evidence.arms[arm]), *(cell for of_one in of_all for cell in of_one)]


def spread(values: Sequence[float], digits: int) -> list[str | None]:
    """Return mean, standard deviation and interval; the last two take more than one value.

    Where runs ended without a number there is no mean of them all: how many did is said instead.
    """
    if lost := sum(not math.isfinite(value) for value in values):
        return [f"lost in {lost} of {len(values)}", None, None]
    if len(values) < 2:
        return [f"{values[0]:.{digits}f}", None, None]
    low, high = mean_interval(values)
    return [f"{fmean(values):.{digits}f}", f"{stdev(values):.{digits}f}", f"{low:.{digits}f} .. {high:.{digits}f}"]
