"""Rebuild results/tables, results/figures, results/report.html and the README's verdicts from the committed records."""

import json
import sys

from ln_repro.claims.judge import claim_rows
from ln_repro.commands.archive import complaints, read_archive
from ln_repro.records.archive import records_folder
from ln_repro.report import figure_rates
from ln_repro.report.export import all_tables, export
from ln_repro.report.figures import draw_all
from ln_repro.report.page import page
from ln_repro.report.readme_table import with_verdicts
from ln_repro.system.paths import CHECKOUT


def main() -> int:
    """Write the tables, the README's verdicts, the figures and the page; return the exit code."""
    results, readme = records_folder().parent, CHECKOUT / "README.md"
    theory = json.loads((results / "theory.json").read_text(encoding="utf-8"))
    kept, arms, evidence = read_archive(records_folder())
    arms.save()
    rows = claim_rows(evidence, theory["findings"])
    (results / "tables").mkdir(exist_ok=True)
    files = export(all_tables(kept, rows, evidence, theory["findings"], arms))
    for name, text in files.items():
        (results / "tables" / name).write_text(text, encoding="utf-8")
    print(f"{len(files)} files of tables written to results/tables")
    readme.write_text(with_verdicts(readme.read_text(encoding="utf-8"), rows), encoding="utf-8")
    paths, _ = draw_all(evidence, results / "theory.json", results / "figures")
    print(f"{len(paths)} figures written to results/figures")
    picture = results / "figures" / f"{figure_rates.NAME}.svg"
    svg = picture.read_text(encoding="utf-8") if picture.exists() else ""
    (results / "report.html").write_text(page(kept.runs, rows, theory, svg), encoding="utf-8")
    print("page written to results/report.html")
    return complaints(kept.problems)


if __name__ == "__main__":
    sys.exit(main())
