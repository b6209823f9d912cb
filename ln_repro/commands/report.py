"""`ln-repro tables`, `figures`, `claims`, `arena` and `report`: report the results of archived records."""

import argparse
import json

from rich.console import Console

from ln_repro.claims.arena import arena
from ln_repro.claims.judge import claim_rows, read_archive
from ln_repro.claims.words import display_name
from ln_repro.commands.messages import complaints, say
from ln_repro.errors import UserError
from ln_repro.experiment.name import ArmName
from ln_repro.experiment.validation import nearest
from ln_repro.records.archive import given_records, records_folder
from ln_repro.records.status import aligned
from ln_repro.report.arena import arena_data, arena_table
from ln_repro.report.claims import LEGEND, details, overview
from ln_repro.report.page import page, page_tables
from ln_repro.report.results import all_tables
from ln_repro.report.tables import DOCUMENTS, render, with_tables
from ln_repro.system.files import explained
from ln_repro.system.paths import CHECKOUT


def tables_command(options: argparse.Namespace) -> int:
    archive = read_archive(given_records(options.records))
    files = all_tables(archive, claim_rows(archive))
    tables = {name: table for of_file in files.values() for name, table in of_file.items()}
    wanted = {start: [name for name in tables if f"{name}-".startswith(f"{start}-")] for start in options.names}
    if unknown := [start for start, names in wanted.items() if not names]:
        raise UserError(f"tables: there is no {unknown[0]!r}; give some of: {', '.join(tables)}")
    print(render({name: tables[name] for names in wanted.values() or [tables] for name in names}, options.format))
    return complaints(archive.kept.problems)


def figures_command(options: argparse.Namespace) -> int:
    from ln_repro.report.figures import draw_all  # loads matplotlib, which the other commands need not

    folder = given_records(options.records)
    archive = read_archive(folder)
    with explained(options.out, "--out"):
        paths = draw_all(archive, options.out)
    print("\n".join(map(str, paths)) or f"nothing to draw from the records in {folder}")
    return complaints(archive.kept.problems)


def claims_command(options: argparse.Namespace) -> int:
    archive = read_archive(given_records(options.records))
    rows = claim_rows(archive)
    known, wanted = {row.id.lower(): row.id for row in rows}, {name.lower() for name in options.ids}
    if unknown := [name for name in options.ids if name.lower() not in known]:
        raise UserError(f"claims: there is no {unknown[0]}{nearest(unknown[0].upper(), [*known.values()])}")
    rows = [row for row in rows if not wanted or row.id.lower() in wanted]
    console = Console()
    if options.json:
        print(json.dumps([row.json() for row in rows], indent=1))
    elif options.ids:
        for row in rows:
            console.print(*details(row, console.width), sep="\n", end="\n\n", soft_wrap=True)
    else:
        console.print(*overview(rows), LEGEND, sep="\n")
        say("`ln-repro claims ID` prints a claim's rule, its records and what would resolve it")
    return complaints(archive.kept.problems)


def arena_command(options: argparse.Namespace) -> int:
    archive = read_archive(given_records(options.records))
    entries = {
        name: ranked
        for name, evidence in sorted(archive.evidence.items())
        if not evidence.starts and (ranked := arena(evidence))
    }
    setting = options.setting.removeprefix("corpus=")
    if setting not in entries:
        known = f"give one of: {', '.join(entries)}" if entries else "there is no setting with such records yet"
        raise UserError(f"arena: {setting!r} is no setting with a scheme of three seeds; {known}")
    ranked, costs = entries[setting], archive.kept.costs
    if options.json:
        print(json.dumps(arena_data(ranked, costs), indent=1, allow_nan=False))
        return complaints(archive.kept.problems)
    table = arena_table(ranked, costs)
    cells = [table.columns, *([cell or "-" for cell in row] for row in table.rows)]
    print(aligned(cells, gap=" "), *table.notes, sep="\n")
    schemes = {ArmName.of(arm).scheme for arm in archive.evidence[setting].rates}
    if few := sorted(schemes - {entry.scheme for entry in ranked}):
        say(f"left out, with fewer than three seeds at any rate: {', '.join(map(display_name, few))}")
    return complaints(archive.kept.problems)


def report_command(options: argparse.Namespace) -> int:
    """Run `report`: write the tables, the figures, the page and the tables in documents from the committed records."""
    from ln_repro.report.figures import draw_all  # loads matplotlib

    results = records_folder().parent
    if not (results / "theory.json").is_file():
        raise UserError("report: needs a checkout of the repository, with its results")
    archive = read_archive(records_folder())
    archive.arms.save()
    rows = claim_rows(archive)
    (results / "tables").mkdir(exist_ok=True)
    files = all_tables(archive, rows)
    files.pop("runs", None)  # a row a record; `ln-repro tables runs` prints them
    for name, tables in files.items():
        (results / "tables" / f"{name}.md").write_text(render(tables, "md") + "\n", encoding="utf-8")
    for path in (CHECKOUT / name for name in DOCUMENTS):
        path.write_text(with_tables(path.read_text(encoding="utf-8"), files), encoding="utf-8")
    paths = draw_all(archive, results / "figures")
    written = page(archive.kept.runs, page_tables(rows), {path.stem for path in paths})
    (results / "report.html").write_text(written, encoding="utf-8")
    print(f"{len(files)} files of tables, {len(paths)} figures and report.html written to {results}")
    return complaints(archive.kept.problems)
