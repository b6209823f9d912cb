"""The tables that are committed are the ones that the committed records give."""

import pytest
from ln_repro.report.claims import claim_rows
from ln_repro.report.evidence import Run, gather

from ln_repro.compose import named
from ln_repro.report.board import BEGIN, END, readme, with_board
from ln_repro.report.records import read_kept, read_theory, records_folder
from ln_repro.report.written import all_tables, arms_table, written
from tests.report.made_records import made_evidence
from tests.report.made_up import run


def test_what_is_committed_is_what_the_records_give() -> None:
    folder = records_folder()
    results, files = folder.parent, all_tables(read_kept(folder).runs, read_theory(folder), named)
    for name, text in written(files).items():
        assert (results / "tables" / name).read_text() == text, f"{name} is stale: make reproduce-tables"


def test_the_readme_shows_the_verdicts_that_the_records_give() -> None:
    folder = records_folder()
    rows = claim_rows(gather(read_kept(folder).runs, named), read_theory(folder))
    text = readme().read_text()
    assert BEGIN in text and END in text
    assert with_board(text, rows) == text, "README.md is stale: make reproduce-tables"


def test_an_arm_has_mean_deviation_and_interval_over_its_seeds() -> None:
    evidence = made_evidence("toy", {"postln_warm": {"bleu": 20.0, "loss": 3.0}})["toy"]
    (row,) = arms_table(evidence)["rows"]
    assert row[:4] == ["postln_warm", 5, "20.00", "0.16"]
    low, high = map(float, row[4].split(" .. "))
    assert (low, high) == (pytest.approx(19.80, abs=0.01), pytest.approx(20.20, abs=0.01)), "2.776 * 0.158 / sqrt 5"
    one = made_evidence("toy", {"postln_warm": {}}, seeds=1)["toy"]
    assert arms_table(one)["rows"][0][3:5] == [None, None]


def test_an_arm_of_which_runs_were_lost_says_in_how_many() -> None:
    runs = [Run(run(seed=seed, losses=(None,) if seed == 2 else (3.0, 2.0), bleus=(30.0,))) for seed in (1, 2, 3)]
    (row,) = arms_table(gather(runs, named)["toy"])["rows"]
    assert row[0] == "postln_warm" and row[-3:] == ["lost in 1 of 3", None, None]
