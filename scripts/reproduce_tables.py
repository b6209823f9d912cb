"""Rebuild results/tables, results/figures and the README's verdicts from the committed records."""

import sys

from ln_repro.compose import named_axes
from ln_repro.report.board import readme, with_board
from ln_repro.report.claims import claim_rows
from ln_repro.report.evidence import gather
from ln_repro.report.figures import draw_all
from ln_repro.report.records import read_kept, read_theory, records_folder
from ln_repro.report.written import all_tables, written


def main() -> int:
    """Write the tables in every form, and the figures as PNG and SVG; return the exit code."""
    results = records_folder().parent
    kept, findings = read_kept(records_folder()), read_theory(records_folder())
    evidence = gather(kept.runs, named_axes)
    files = all_tables(kept.runs, findings, named_axes)
    (results / "tables").mkdir(exist_ok=True)
    for name, text in written(files).items():
        (results / "tables" / name).write_text(text)
    readme().write_text(with_board(readme().read_text(), claim_rows(evidence, findings)))
    print(f"{sum(map(len, files.values()))} tables written to results/tables")
    drawn = draw_all(evidence, results / "theory.json", results / "figures")
    print(f"{len(drawn.paths)} figures written to results/figures")
    for problem in kept.problems:
        print(problem, file=sys.stderr)
    return 1 if kept.problems else 0


if __name__ == "__main__":
    sys.exit(main())
