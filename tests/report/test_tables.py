"""Records to tables in every form."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ln_repro.report.tables import OTHER_EPOCHS, latex, render, run_tables, runs_table, signatures
from tests.examples import SIGNATURE, diverged, record, recorded, store

COLUMNS = ["exp", "seed", "valid loss", "BLEU", "BLEU tok.", "last", "max", "status", "id"]
FINISHED_ROW = ["toy_preln_nowarm", 1, "2.125", "41.51", "43.25", "43.25", "43.25", "finished", "0123456789"]
DIVERGED_ROW = ["toy_postln_nowarm", 2, None, None, None, None, None, "diverged", "abcdef0123"]
TABLES = run_tables([recorded(**diverged()), recorded()], {})


def test_an_average_has_columns_and_signatures_of_its_own() -> None:
    signature = SIGNATURE.replace("avg:1", "avg:5")
    scores = {
        "test_average": {"score": 42.0, "signature": signature, "epochs": [1, 2]},
        "test_average_tokenised": {"score": 43.5, "signature": signature.replace("13a", "none"), "epochs": [1, 2]},
    }
    averaged = recorded(bleu=record()["bleu"] | scores)
    found = runs_table([recorded(), averaged], {})
    assert found["columns"] == [*COLUMNS[:-4], "BLEU avg.", "BLEU avg. tok.", *COLUMNS[-4:]]
    assert found["rows"] == [
        [*FINISHED_ROW[:-4], None, None, *FINISHED_ROW[-4:]],
        [*FINISHED_ROW[:-4], "42.00", "43.50", *FINISHED_ROW[-4:]],
    ]
    assert found["notes"] == [
        OTHER_EPOCHS, *signatures([recorded()]), f"BLEU avg.: {signature}",
        f"BLEU avg. tok.: {signature.replace('13a', 'none')}",
    ]  # fmt: skip
    without = recorded(bleu=record()["bleu"] | dict.fromkeys(scores))  # too few epochs
    assert runs_table([without], {})["rows"] == [FINISHED_ROW]


def test_the_last_and_the_highest_score_stand_beside_that_of_the_lowest_loss() -> None:
    first, second = record()["epochs"]
    overfitted = recorded(epochs=[first, second, second | {"epoch": 3, "valid_loss": 3.0, "test_bleu_tokenised": 44.0},
                                second | {"epoch": 4, "valid_loss": 4.0, "test_bleu_tokenised": 42.0}])  # fmt: skip
    found = runs_table([overfitted], {})
    row = dict(zip(found["columns"], found["rows"][0], strict=True))
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


def test_the_command_prints_columns_and_rows_as_json(tmp_path: Path, call: Callable[..., tuple[int, str, str]]) -> None:
    one = record()
    store(tmp_path, one)
    code, out, _ = call("tables", "--format", "json", "--records", tmp_path)
    table = json.loads(out)["runs-toy"]
    assert code == 0
    (row,) = (dict(zip(table["columns"], row, strict=True)) for row in table["rows"])
    assert row.items() >= dict(zip(COLUMNS, FINISHED_ROW, strict=True)).items()
