"""Rebuild tables, the theory's figures, the README's verdicts and results/report.html from the committed records."""

import json
import sys

from ln_repro.compose import named_axes
from ln_repro.report.board import readme, with_board
from ln_repro.report.claims import claim_rows
from ln_repro.report.evidence import gather
from ln_repro.report.page import page_of
from ln_repro.report.records import read_kept, read_theory, records_folder
from ln_repro.report.theory_figures import draw
from ln_repro.report.written import all_tables, written


def main() -> int:
    """Write the tables in every form, and the figures as PNG and SVG, and the page; return the exit code."""
    results = records_folder().parent
    kept = read_kept(records_folder())
    findings = read_theory(records_folder())
    files = all_tables(kept.runs, findings, named_axes)
    rows = claim_rows(gather(kept.runs, named_axes), findings)
    (results / "tables").mkdir(exist_ok=True)
    for name, text in written(files).items():
        (results / "tables" / name).write_text(text)
    readme().write_text(with_board(readme().read_text(), rows))
    print(f"{sum(map(len, files.values()))} tables written to results/tables")
    theory = json.loads((results / "theory.json").read_text())
    figures = draw(theory["figures"], results / "figures")
    print(f"{len(figures)} figures written to results/figures")
    (results / "report.html").write_text(page_of(kept.runs, theory, named_axes), encoding="utf-8")
    print("the page written to results/report.html")
    for problem in kept.problems:
        print(problem, file=sys.stderr)
    return 1 if kept.problems else 0


if __name__ == "__main__":
    sys.exit(main())
