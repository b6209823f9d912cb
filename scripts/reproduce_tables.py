"""Rebuild results/tables from the committed records."""

from ln_repro.report.records import read_records, records_folder
from ln_repro.report.tables import render, run_tables

SUFFIXES = {"md": "md", "csv": "csv", "latex": "tex", "json": "json"}


def main() -> None:
    """Write the tables in every form."""
    tables = run_tables(read_records(records_folder()))
    out = records_folder().parent / "tables"
    out.mkdir(exist_ok=True)
    for form, suffix in SUFFIXES.items():
        (out / f"runs.{suffix}").write_text(render(tables, form) + "\n")
    print(f"{len(tables)} tables written to results/tables")


if __name__ == "__main__":
    main()
