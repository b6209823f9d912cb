"""Rebuild results/tables and results/figures from the committed records."""

import itertools
import json

from ln_repro.report.figures import draw_all
from ln_repro.report.records import read_records, records_folder
from ln_repro.report.tables import render, run_tables
from ln_repro.report.theory import findings_table

SUFFIXES = {"md": "md", "csv": "csv", "latex": "tex", "json": "json"}


def main() -> None:
    """Write the tables in every form, and the figures as PNG and SVG."""
    results = records_folder().parent
    theory = json.loads((results / "theory.json").read_text())
    files = {
        "runs": run_tables(read_records(records_folder())),
        "theory": {"theory": findings_table(theory["findings"])},
    }
    (results / "tables").mkdir(exist_ok=True)
    for (name, tables), (form, suffix) in itertools.product(files.items(), SUFFIXES.items()):
        (results / "tables" / f"{name}.{suffix}").write_text(render(tables, form) + "\n")
    print(f"{sum(map(len, files.values()))} tables written to results/tables")
    drawn = draw_all(records_folder(), results / "figures")
    print(f"{len(drawn.paths)} figures written to results/figures")


if __name__ == "__main__":
    main()
