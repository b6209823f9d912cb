"""Committed tables are what the committed records give; and what the tables of arms and of rates say."""

from functools import cache

import pytest

from ln_repro.claims.arms import LOCK, Arms
from ln_repro.claims.judge import Judged, Row
from ln_repro.claims.metrics import Effect
from ln_repro.claims.rules.th import STATEMENTS
from ln_repro.report.claims_table import claims_table
from ln_repro.report.export import (
    DOCUMENTS,
    MARKED,
    Files,
    all_tables,
    arms_table,
    export,
    rates_table,
    with_tables,
)
from ln_repro.system.files import read_json
from ln_repro.system.paths import CHECKOUT
from tests import committed
from tests.claims.made import gathered, made, made_runs, on_rates


@cache
def committed_tables() -> Files:
    return all_tables(committed.archive(), committed.rows(), committed.theory()["findings"])


def test_what_is_committed_is_what_the_records_give() -> None:
    files = export(committed_tables())
    folder = committed.RESULTS / "tables"
    assert {path.name for path in folder.iterdir()} == {*files}
    for name, text in files.items():
        assert (folder / name).read_text() == text, f"{name} is stale: make reproduce-tables"


def test_the_lock_file_of_arms_is_up_to_date() -> None:
    """If it is not, every command that reads the records composes each experiment again, which takes half a minute."""
    assert read_json(committed.RESULTS / LOCK, dict)["sources"] == Arms(committed.RECORDS).digest, (
        f"{LOCK} is stale: make reproduce-tables"
    )


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_show_what_the_records_give(name: str) -> None:
    text, tables = (CHECKOUT / name).read_text(), committed_tables()
    known = {name for of_file in tables.values() for name in of_file}
    assert {name for _, name, _ in MARKED.findall(text)} <= known and MARKED.search(text)
    assert with_tables(text, tables) == text, f"{name} is stale: make reproduce-tables"


def test_the_committed_theory_has_every_finding_decided_and_every_figure() -> None:
    theory = committed.theory()
    assert [found["id"] for found in theory["findings"]] == list(STATEMENTS)
    assert {*theory["figures"]} == {"initialisation"}
    assert theory["code"]["git"] and not theory["code"]["dirty"]
    assert min(part["seeds"] for found in theory["findings"] for part in found["parts"]) == 10
    assert not any(found["note"] for found in theory["findings"]), "nothing is left out"


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
    found = arms_table(evidence)
    row = dict(zip(found["columns"], found["rows"][0], strict=True))
    assert (row["arm"], row["seeds"], row["trains"], row["LR50"]) == ("postln_warm", 5, "5/5", None)
    assert row["BLEU tok."] == "20 [19.8, 20.2]", "2.776 * 0.158 / sqrt 5"
    assert row["valid loss"] == "3 [2.98, 3.02]" and row["NLL"] == "2 [1.98, 2.02]" and row["skill"] == "1.00"


def test_an_arm_of_which_runs_ended_without_a_number_says_in_how_many() -> None:
    runs = [made(seed=seed, losses=[None] if seed == 2 else [3.0]) for seed in (1, 2, 3)]
    (row,) = arms_table(gathered(runs)["toy"])["rows"]
    assert row[0] == "postln_warm" and row[3:5] == ["none in 1 of 3"] * 2


def test_an_arm_at_three_rates_has_a_row_for_each_and_an_lr50_and_a_sensitivity() -> None:
    rates = {1e-3: [80.0] * 5, 2e-3: [90.0] * 4 + [20.0], 4e-3: [0.0] * 5}
    found = gathered(on_rates("toy", {"postln_warm": rates, "preln_warm": {1e-3: [80.0]}}))["toy"]
    table = rates_table(found)
    assert [row[:5] for row in table["rows"]] == [
        ["postln_warm", "0.001", 5, "5/5", "0/5"], ["postln_warm", "0.002", 5, "4/5", "1/5"],
        ["postln_warm", "0.004", 5, "0/5", "5/5"],
    ]  # fmt: skip
    arms = arms_table(found)
    first = dict(zip(arms["columns"], arms["rows"][0], strict=True))
    assert first["LR50"].startswith("0.00") and first["LR50"].endswith("]")
    assert first["LR sensitivity"] == "0.00 [0.00, 0.00] over 0.001 to 0.004"
