"""Rebuild results/tables and the figures of the theory from the committed records."""

import json
import sys

from ln_repro.compose import named_axes
from ln_repro.report.records import read_kept, read_theory, records_folder
from ln_repro.report.theory_figures import draw
from ln_repro.report.written import all_tables, written


def main() -> int:
    """Write the tables in every form, and the figures as PNG and SVG; return the exit code."""
    results = records_folder().parent
    kept = read_kept(records_folder())
    files = all_tables(kept.runs, read_theory(records_folder()), named_axes)
    (results / "tables").mkdir(exist_ok=True)
    for name, text in written(files).items():
        (results / "tables" / name).write_text(text)
    print(f"{sum(map(len, files.values()))} tables written to results/tables")
    figures = draw(json.loads((results / "theory.json").read_text())["figures"], results / "figures")
    print(f"{len(figures)} figures written to results/figures")
    for problem in kept.problems:
        print(problem, file=sys.stderr)
    return 1 if kept.problems else 0


if __name__ == "__main__":
    sys.exit(main())
