"""Rebuild tables, figures, the README's verdicts and results/report.html from the committed records."""

import json
import sys

from ln_repro.compose import named
from ln_repro.report.board import readme, with_board
from ln_repro.report.claims import claim_rows
from ln_repro.report.evidence import gather
from ln_repro.report.figures import draw_all
from ln_repro.report.page import page_of
from ln_repro.report.records import read_kept, records_folder
from ln_repro.report.written import all_tables, written


def main() -> int:
    """Write the tables in every form, the verdicts, the page, and the figures; return the exit code."""
    results = records_folder().parent
    kept, theory = read_kept(records_folder()), json.loads((results / "theory.json").read_text())
    evidence = gather(kept.runs, named)
    files = all_tables(kept.runs, theory["findings"], named)
    (results / "tables").mkdir(exist_ok=True)
    for name, text in written(files).items():
        (results / "tables" / name).write_text(text)
    print(f"{sum(map(len, files.values()))} tables written to results/tables")
    readme().write_text(with_board(readme().read_text(), claim_rows(evidence, theory["findings"])))
    (results / "report.html").write_text(page_of(kept.runs, theory, named), encoding="utf-8")
    print("the page written to results/report.html")
    drawn = draw_all(evidence, results / "theory.json", results / "figures")
    print(f"{len(drawn.paths)} figures written to results/figures")
    for problem in kept.problems:
        print(problem, file=sys.stderr)
    return 1 if kept.problems else 0


if __name__ == "__main__":
    sys.exit(main())
