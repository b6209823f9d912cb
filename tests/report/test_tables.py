"""Tables and claims in every form; committed tables and documents are what the committed records give."""

import csv
import json
from functools import cache
from typing import Any

import pytest

from ln_repro.claims.arms import LOCK, Arms
from ln_repro.claims.judge import Judged, Row
from ln_repro.claims.metrics import Effect
from ln_repro.records.archive import records_folder
from ln_repro.report.claims import claims_table
from ln_repro.report.results import Files, all_tables, arms_table, runs_table
from ln_repro.report.tables import DOCUMENTS, MARKED, Table, latex, render, with_tables
from ln_repro.system.files import read_json
from ln_repro.system.paths import CHECKOUT
from tests import committed
from tests.claims.made import gathered, made_runs
from tests.examples import record, recorded, store


def by_column(table: Table) -> list[dict[str, Any]]:
    """Return the rows of a table as cells by column."""
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def test_the_last_and_the_highest_score_stand_beside_that_of_the_lowest_loss() -> None:
    first, second = record()["epochs"]
    overfitted = recorded(epochs=[first, second, second | {"epoch": 3, "valid_loss": 3.0, "test_bleu_tokenised": 44.0},
                                second | {"epoch": 4, "valid_loss": 4.0, "test_bleu_tokenised": 42.0}])  # fmt: skip
    (row,) = by_column(runs_table([overfitted], {}))
    assert [row[name] for name in ("BLEU tok.", "last", "max")] == ["43.25", "42.00", "44.00"]


def test_latex_escapes_what_latex_would_read_as_code() -> None:
    text = latex("t", Table(["a_b", "50% & $5 #1"], [["{x}", "~y^ \\z"], ["<0.5", ">2"], ["✓ x4", "≥3"], [None, 1.5]]))
    assert r"a\_b & 50\% \& \$5 \#1 \\" in text
    assert r"\{x\} & \textasciitilde{}y\textasciicircum{} \textbackslash{}z \\" in text
    assert r"\textless{}0.5 & \textgreater{}2 \\" in text
    assert r"$\surd$ x4 & $\geq$3 \\" in text
    assert r"- & 1.5 \\" in text
    assert text.splitlines()[:3] == ["% t", r"\begin{tabular}{ll}", r"\toprule"]
    assert text.splitlines()[-2:] == [r"\bottomrule", r"\end{tabular}"]


def test_the_command_prints_the_tables_that_are_named_in_several_formats(tmp_path, call, refused) -> None:
    store(tmp_path, record())
    expected = {"exp": "toy_preln_nowarm", "seed": 1, "valid loss": "2.125", "BLEU": "41.51", "BLEU tok.": "43.25",
                "last": "43.25", "max": "43.25", "status": "finished", "id": "0123456789"}  # fmt: skip
    for names in ((), ("runs-toy",), ("runs",)):
        code, out, _ = call("tables", "--format", "json", "--records", tmp_path, *names)
        (row,) = by_column(Table(**json.loads(out)["runs-toy"]))
        assert code == 0 and row.items() >= expected.items() and (len(json.loads(out)) == 1) == bool(names)
        assert "lr50" not in json.loads(out), "it would have no column"
    _, out, _ = call("tables", "--format", "csv", "--records", tmp_path, "runs-toy")
    (row,) = csv.DictReader(out.splitlines())
    assert row["table"] == "runs-toy" and row.items() >= {(name, str(value)) for name, value in expected.items()}
    message = refused(["tables", "run", "--records", str(tmp_path)])
    assert "there is no 'run'; give some of: " in message and "runs-toy" in message


@cache
def committed_tables() -> Files:
    return all_tables(committed.archive(), committed.rows())


def test_what_is_committed_is_what_the_records_give() -> None:
    files = {f"{name}.md": render(tables, "md") + "\n" for name, tables in committed_tables().items() if name != "runs"}
    stale = {name for name, text in files.items() if (committed.RESULTS / "tables" / name).read_text() != text}
    assert not stale and {path.name for path in (committed.RESULTS / "tables").iterdir()} == {*files}, stale


def test_the_lock_file_of_arms_is_up_to_date() -> None:
    """If it is not, every command that reads the records composes each experiment again, which takes half a minute."""
    assert read_json(committed.RESULTS / LOCK, dict)["sources"] == Arms(committed.RECORDS).digest, (
        f"{LOCK} is stale: make reproduce-tables"
    )


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_show_what_the_records_give(name: str) -> None:
    text, files = (CHECKOUT / name).read_text(), committed_tables()
    known = {name for tables in files.values() for name in tables}
    assert {name for _, _, name, _ in MARKED.findall(text)} <= known and MARKED.search(text)
    assert with_tables(text, files) == text, f"{name} is stale: make reproduce-tables"


def test_the_table_of_claims_has_effects_seeds_notes_and_whether_the_rule_came_first() -> None:
    def judged(verdict: str, **fields: Any) -> Judged:
        return Judged("toy", "toy", "toy", verdict, Effect(4.46, (3.28, 6.13), "x{} in rate", ".2g"), seeds=5, **fields)

    def cells(*others: Judged) -> list[Any]:
        row = Row("MT-1", "it needs it", "8.45", "8.45", "section 3.2", judged("not-run"), others)
        return [*claims_table([row]).rows[0]]

    larger = Judged("tatoeba", "tatoeba", "adapted", "inconclusive", seeds=1, ours="1 of 1 trains", note="saturated")
    assert cells(judged("reproduced", older=9, explored="reproduced"), larger) == [
        "it needs it", "8.45", "✓ x4.5 [3.3, 6.1] in rate\n5 seeds", None,
        "? 1 of 1 trains\nTatoeba, 1 seed, saturated", "amended\nMT-1",
    ]  # fmt: skip
    both = judged("reproduced", explored="reproduced", replicated="reproduced")
    assert cells(both)[-1] == "before, replicated on Toy\nMT-1"


def test_an_arm_has_mean_and_interval_over_its_seeds_and_how_many_train() -> None:
    evidence = gathered(made_runs("toy", {"postln_warm": {"bleu": 20.0, "loss": 3.0}}))["toy"]
    (row,) = by_column(arms_table(evidence))
    assert (row["arm"], row["seeds"], row["trains"], row["LR50"]) == ("postln_warm", 5, "5/5", None)
    assert row["BLEU tok."] == "20 [19.8, 20.2]", "2.776 * 0.158 / sqrt 5"
    assert row["valid loss"] == "3 [2.98, 3.02]" and row["NLL"] == "2 [1.98, 2.02]" and row["skill"] == "1.00"


def test_all_claims_fit_into_eighty_columns_with_their_effects(call) -> None:
    (_, rows, _), (code, text, _) = call("claims", "--json"), call("claims")
    assert code == 0 and max(map(len, text.splitlines())) <= 80
    for row in json.loads(rows):
        assert (row["id"] in text) == bool(row["other_corpora"] or row["id"].startswith("TH")), row["id"]


def test_one_claim_has_its_rule_records_needs_and_command(call) -> None:
    (row, _) = json.loads(call("claims", "MT-4", "--json", "MT-5")[1])
    text = call("claims", "MT-4")[1]
    words = " ".join(text.split())
    assert row.keys() >= {"id", "claim", "paper", "ours", "verdict", "evidence", "command", "cost_gpu_hours"}
    for part in (row, *row["other_corpora"]):
        assert f"{part['rule']} ({part['written']}: {part['source']})" in words
        assert all(id in text for id in part["evidence"])
        assert (part["needs"] or "") in words
        assert (f"run {part['command']}" in words) == bool(part["needs"])
        assert {"effect", "interval", "seeds", "verdict", "replicated"} <= part.keys()
    assert row["command"] in text.replace("\n", "¶")  # on one line, to be copied


def test_a_claim_of_ours_without_runs_has_the_command_that_runs_it(call, tmp_path) -> None:
    lines = (records_folder() / "toy.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "toy.jsonl").write_text(lines[0])
    (row,) = json.loads(call("claims", "X-7b", "--json", "--records", tmp_path)[1])
    text = call("claims", "X-7b", "--records", tmp_path)[1]
    assert row["verdict"] == "not-run" and f"\nnot-run\n  run        {row['command']}\n" in text
