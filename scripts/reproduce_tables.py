"""Rebuild tables, figures, the README's verdicts and results/report.html from the committed records."""

import json
import sys

from ln_repro.claims.judge import claim_rows, evidence_of
from ln_repro.commands.report import arms_beside, complaints
from ln_repro.records.archive import read_kept, records_folder
from ln_repro.report import figure_rates
from ln_repro.report.export import all_tables, written
from ln_repro.report.figures import draw_all
from ln_repro.report.page import page_of
from ln_repro.report.readme_table import readme, with_board


def main() -> int:
    """Write the tables in every form, the verdicts, the page, and the figures; return the exit code."""
    results = records_folder().parent
    kept, theory = read_kept(records_folder()), json.loads((results / "theory.json").read_text())
    arms = arms_beside(records_folder())
    evidence = evidence_of(kept.runs, arms, kept.corpora)
    arms.save()
    rows = claim_rows(evidence, theory["findings"])
    files = all_tables(kept.runs, rows, evidence, theory["findings"])
    (results / "tables").mkdir(exist_ok=True)
    for name, text in written(files).items():
        (results / "tables" / name).write_text(text)
    print(f"{sum(map(len, files.values()))} tables written to results/tables")
    readme().write_text(with_board(readme().read_text(), rows))
    drawn = draw_all(evidence, results / "theory.json", results / "figures")
    print(f"{len(drawn.paths)} figures written to results/figures")
    picture = results / "figures" / f"{figure_rates.NAME}.svg"
    page = page_of(kept.runs, rows, theory, picture.read_text(encoding="utf-8") if picture.exists() else "")
    (results / "report.html").write_text(page, encoding="utf-8")
    print("the page written to results/report.html")
    return complaints(kept.problems)


if __name__ == "__main__":
    sys.exit(main())
