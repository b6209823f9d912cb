"""Tables of records in every form; committed tables and documents are what the committed records give."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ln_repro.claims.arms import LOCK, Arms
from ln_repro.claims.judge import Judged, Row
from ln_repro.claims.metrics import Effect
from ln_repro.claims.rules.th import STATEMENTS
from ln_repro.report.claims import claims_table
from ln_repro.report.results import (
    OTHER_EPOCHS,
    Files,
    all_tables,
    arms_table,
    rates_table,
    run_tables,
    runs_table,
    signatures,
)
from ln_repro.report.tables import DOCUMENTS, MARKED, hypertext, latex, render, with_tables
from ln_repro.system.files import read_json
from ln_repro.system.paths import CHECKOUT
from tests import committed
from tests.claims.made import gathered, made, made_runs, on_rates
from tests.examples import SIGNATURE, diverged, record, recorded, store

COLUMNS = ["exp", "seed", "valid loss", "BLEU", "BLEU tok.", "last", "max", "status", "id"]
FINISHED_ROW = ["toy_preln_nowarm", 1, "2.125", "41.51", "43.25", "43.25", "43.25", "finished", "0123456789"]
DIVERGED_ROW = ["toy_postln_nowarm", 2, None, None, None, None, None, "diverged", "abcdef0123"]
TABLES = run_tables([recorded(**diverged()), recorded()], {})


def by_column(table: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a table as cells by column."""
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def test_an_average_has_columns_and_signatures_of_its_own() -> None:
    signature = SIGNATURE.replace("avg:1", "avg:5")
    scores = {
        "test_average": {"score": 42.0, "signature": signature, "epochs": [1, 2]},
        "test_average_tokenised": {"score": 43.5, "signature": signature.replace("13a", "none"), "epochs": [1, 2]},
    }
    averaged = recorded(bleu=record()["bleu"] | scores)
    table = runs_table([recorded(), averaged], {})
    assert table["columns"] == [*COLUMNS[:-4], "BLEU avg.", "BLEU avg. tok.", *COLUMNS[-4:]]
    assert table["rows"] == [
        [*FINISHED_ROW[:-4], None, None, *FINISHED_ROW[-4:]],
        [*FINISHED_ROW[:-4], "42.00", "43.50", *FINISHED_ROW[-4:]],
    ]
    assert table["notes"] == [
        OTHER_EPOCHS, *signatures([recorded()]), f"BLEU avg.: {signature}",
        f"BLEU avg. tok.: {signature.replace('13a', 'none')}",
    ]  # fmt: skip
    without = recorded(bleu=record()["bleu"] | dict.fromkeys(scores))  # too few epochs
    assert runs_table([without], {})["rows"] == [FINISHED_ROW]


def test_the_last_and_the_highest_score_stand_beside_that_of_the_lowest_loss() -> None:
    first, second = record()["epochs"]
    overfitted = recorded(epochs=[first, second, second | {"epoch": 3, "valid_loss": 3.0, "test_bleu_tokenised": 44.0},
                                second | {"epoch": 4, "valid_loss": 4.0, "test_bleu_tokenised": 42.0}])  # fmt: skip
    (row,) = by_column(runs_table([overfitted], {}))
    assert [row[name] for name in ("BLEU tok.", "last", "max")] == ["43.25", "42.00", "44.00"]


def masked() -> dict[str, Any]:
    """Return the record of a run that decodes nothing; its best epoch is the first."""
    epochs = [row | {"test_bleu": None, "test_bleu_tokenised": None, "valid_loss": loss}
              for row, loss in zip(record()["epochs"], (2.5, 3.5), strict=True)]  # fmt: skip
    axes = record()["axes"] | {"task": "masked_lm"}
    return recorded(id="1", axes=axes, epochs=epochs, bleu={"test": None, "test_tokenised": None})


def test_a_task_without_scores_has_a_table_of_its_own_without_them() -> None:
    tables = run_tables([recorded(), masked()], {})
    assert list(tables) == ["runs-toy", "runs-toy-masked_lm"]
    assert tables["runs-toy"]["rows"] == [FINISHED_ROW]
    assert tables["runs-toy-masked_lm"] == {
        "columns": ["exp", "seed", "valid loss", "status", "id"],
        "rows": [["toy_preln_nowarm", 1, "2.500", "finished", "1"]],
        "notes": [],
    }


def test_csv_has_the_table_in_its_first_column() -> None:
    assert TABLES["runs-toy"]["rows"] == [DIVERGED_ROW, FINISHED_ROW]
    lines = render(TABLES, "csv").splitlines()
    assert lines[0] == ",".join(["table", *COLUMNS])
    assert lines[2] == ",".join(["runs-toy", *map(str, FINISHED_ROW)])


def test_markdown_is_aligned_and_ends_with_the_signatures() -> None:
    name, _, *table, _, last, _, bleu, _, tokenised = render(TABLES, "md").splitlines()
    assert name == "### runs-toy" and len({len(line) for line in table}) == 1
    assert [[cell.strip() for cell in line.split("|")[1:-1]] for line in (table[0], table[3])] == [
        COLUMNS, [str(cell) for cell in FINISHED_ROW]
    ]  # fmt: skip
    assert [last, bleu, tokenised] == [
        OTHER_EPOCHS,
        f"BLEU: {SIGNATURE}",
        f"BLEU tok.: {SIGNATURE.replace('13a', 'none')}",
    ]


def test_latex_escapes_what_latex_would_read_as_code() -> None:
    text = latex("t", {"columns": ["a_b", "50% & $5 #1"], "rows": [["{x}", "~y^ \\z"], [None, 1.5]]})
    assert r"a\_b & 50\% \& \$5 \#1 \\" in text
    assert r"\{x\} & \textasciitilde{}y\textasciicircum{} \textbackslash{}z \\" in text
    assert r"- & 1.5 \\" in text
    assert text.splitlines()[:3] == ["% t", r"\begin{tabular}{ll}", r"\toprule"]
    assert text.splitlines()[-2:] == [r"\bottomrule", r"\end{tabular}"]


def test_html_has_a_cell_a_line_and_short_notes() -> None:
    text = hypertext({"columns": ["a", "b"], "rows": [["<i>\n2", None]], "notes": ["word " * 30]})
    assert text.startswith("<table>\n<tr><th>a<th>b\n<tr><td>&lt;i&gt;<br>2\n<td>-\n</table>\n\nword")
    assert max(map(len, text.splitlines())) <= 100


def test_the_command_prints_the_tables_that_are_named(
    tmp_path: Path, call: Callable[..., tuple[int, str, str]], refused: Callable[..., str]
) -> None:
    store(tmp_path, record())
    for names in ([], ["runs-toy"]):
        code, out, _ = call("tables", "--format", "json", "--records", tmp_path, *names)
        tables = json.loads(out)
        assert (code == 0 and len(tables) == 1) or not names
        (row,) = by_column(tables["runs-toy"])
        assert row.items() >= dict(zip(COLUMNS, FINISHED_ROW, strict=True)).items()
    said = refused(["tables", "runs", "--records", str(tmp_path)])
    assert "there is no 'runs'; give some of: " in said and "runs-toy" in said


@cache
def committed_tables() -> Files:
    return all_tables(committed.archive(), committed.rows(), committed.theory()["findings"])


def test_what_is_committed_is_what_the_records_give() -> None:
    files = {f"{name}.md": render(tables, "md") + "\n" for name, tables in committed_tables().items()}
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


def test_the_committed_theory_has_every_finding_decided_and_every_figure() -> None:
    theory = committed.theory()
    assert [finding["id"] for finding in theory["findings"]] == list(STATEMENTS)
    assert {*theory["figures"]} == {"initialisation"}
    assert theory["code"]["git"] and not theory["code"]["dirty"]
    assert min(part["seeds"] for finding in theory["findings"] for part in finding["parts"]) == 10
    assert not any(finding["note"] for finding in theory["findings"]), "nothing is left out"


def test_the_table_of_claims_has_effects_seeds_notes_and_whether_the_rule_came_first() -> None:
    effect = Effect(4.46, (3.28, 6.13), "x{} in rate", ".2g")
    toy = Judged("toy", "toy", "toy", "reproduced", effect, seeds=5, older=9, explored="reproduced")
    larger = Judged(
        "tatoeba", "tatoeba", "adapted", "inconclusive", seeds=1, ours="1 of 1 train; more", note="saturated"
    )
    row = Row("MT-1", "it needs it", "8.45", "8.45", "section 3.2", toy, [toy, larger])
    (cells,) = claims_table([row])["rows"]
    assert cells == ["it needs it", "8.45", "✓ x4.5 [3.3, 6.1] in rate\n5 seeds", None,
                     "? 1 of 1 train\nTatoeba, 1 seed, saturated", "amended\nMT-1"]  # fmt: skip
    shown = Judged(
        "toy", "toy", "toy", "inconclusive", effect, seeds=5, note="shown, not judged", replicated="reproduced"
    )
    (cells,) = claims_table([Row("TH-10", "tiny", "0.015", "0.015", "3.4", toy, [shown])])["rows"]
    assert cells[2].startswith("· x4.5") and cells[-1] == "before\nTH-10"
    again = Judged("toy", "toy", "toy", "reproduced", effect, seeds=5, explored="reproduced", replicated="reproduced")
    assert claims_table([Row("MT-1", "", "", "", "", toy, [again])])["rows"][0][-1] == "before, replicated\nMT-1"
    assert claims_table([Row("MT-1", "", "", "", "", toy)])["rows"] == []


def test_an_arm_has_mean_and_interval_over_its_seeds_and_how_many_train() -> None:
    evidence = gathered(made_runs("toy", {"postln_warm": {"bleu": 20.0, "loss": 3.0}}))["toy"]
    (row,) = by_column(arms_table(evidence))
    assert (row["arm"], row["seeds"], row["trains"], row["LR50"]) == ("postln_warm", 5, "5/5", None)
    assert row["BLEU tok."] == "20 [19.8, 20.2]", "2.776 * 0.158 / sqrt 5"
    assert row["valid loss"] == "3 [2.98, 3.02]" and row["NLL"] == "2 [1.98, 2.02]" and row["skill"] == "1.00"


def test_an_arm_of_which_runs_ended_without_a_number_says_in_how_many() -> None:
    runs = [made(seed=seed, losses=[None] if seed == 2 else [3.0]) for seed in (1, 2, 3)]
    (row,) = arms_table(gathered(runs)["toy"])["rows"]
    assert row[0] == "postln_warm" and row[3:5] == ["none in 1 of 3"] * 2


def test_an_arm_at_three_rates_has_a_row_for_each_and_an_lr50_and_a_sensitivity() -> None:
    rates = {1e-3: [80.0] * 5, 2e-3: [90.0] * 4 + [20.0], 4e-3: [0.0] * 5}
    evidence = gathered(on_rates("toy", {"postln_warm": rates, "preln_warm": {1e-3: [80.0]}}))["toy"]
    assert [row[:5] for row in rates_table(evidence)["rows"]] == [
        ["postln_warm", "0.001", 5, "5/5", "0/5"], ["postln_warm", "0.002", 5, "4/5", "1/5"],
        ["postln_warm", "0.004", 5, "0/5", "5/5"],
    ]  # fmt: skip
    first, *_ = by_column(arms_table(evidence))
    assert first["LR50"].startswith("0.00") and first["LR50"].endswith("]")
    assert first["LR sensitivity"] == "0.00 [0.00, 0.00] over 0.001 to 0.004"
