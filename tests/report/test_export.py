"""Committed tables are what the committed records give; and what the tables of arms and of rates say."""

from ln_repro.claims.arms import LOCK, Arms
from ln_repro.claims.theory import STATEMENTS
from ln_repro.report.export import all_tables, arms_table, export, rates_table
from ln_repro.report.readme_table import BEGIN, END, claims_table, headlines, verdict_table, with_verdicts
from ln_repro.system.files import read_json
from ln_repro.system.paths import CHECKOUT
from tests import committed
from tests.claims.made import gathered, made, made_runs, on_rates
from tests.report.claims import claims


def test_what_is_committed_is_what_the_records_give() -> None:
    files = export(all_tables(committed.archive(), committed.rows(), committed.theory()["findings"]))
    folder = committed.RESULTS / "tables"
    assert {path.name for path in folder.iterdir()} == {*files}
    for name, text in files.items():
        assert (folder / name).read_text() == text, f"{name} is stale: make reproduce-tables"


def test_the_lock_file_of_arms_is_up_to_date() -> None:
    """If it is not, every command that reads the records composes each experiment again, which takes half a minute."""
    assert read_json(committed.RESULTS / LOCK, dict)["sources"] == Arms(committed.RECORDS).digest, (
        f"{LOCK} is stale: make reproduce-tables"
    )


def test_the_readme_shows_the_verdicts_that_the_records_give() -> None:
    text = (CHECKOUT / "README.md").read_text()
    assert BEGIN in text and END in text
    assert with_verdicts(text, committed.rows()) == text, "README.md is stale: make reproduce-tables"


def test_the_committed_theory_has_every_finding_decided_and_every_figure() -> None:
    theory = committed.theory()
    assert [found["id"] for found in theory["findings"]] == list(STATEMENTS)
    assert {*theory["figures"]} == {"initialisation"}
    assert theory["code"]["git"] and not theory["code"]["dirty"]
    assert min(part["seeds"] for found in theory["findings"] for part in found["parts"]) == 10
    assert not any(found["note"] for found in theory["findings"]), "nothing is left out"


def test_a_headline_answers_by_yes_no_or_what_is_needed() -> None:
    open_one, *rest = claims()
    other = open_one["other_corpora"][0] | {"plain": "it needs it on 5 of 5 seeds"}
    rows = [open_one | {"id": "MT-1.anchored", "other_corpora": [other, other | {"needs": "two more seeds"}]}, *rest]
    assert headlines(rows)[0].answer == (
        "Toy: yes. It needs it on 5 of 5 seeds. Toy: yes. It needs it on 5 of 5 seeds. A verdict needs two more seeds."
    )
    assert headlines(rows)[1].answer == "Multi30k, 3+3 layers: inconclusive. A verdict needs two more seeds."
    rows[1]["other_corpora"] = [other | {"verdict": "inconclusive", "answer": "Pre-LN is better"}]
    assert headlines(rows)[1].answer == "Toy: Pre-LN is better. It needs it on 5 of 5 seeds."
    assert verdict_table(rows[1:2])["rows"][0][2] == "inconclusive: Pre-LN is better (3 seeds)"


def test_the_table_of_claims_names_the_size_of_a_small_model_and_what_was_found_instead() -> None:
    other = {"data": "multi30k", "setting": "multi30k", "verdict": "inconclusive", "answer": "faster", "seeds": 1}
    (row,) = claims_table([claims()[0] | {"other_corpora": [other]}])["rows"]
    assert row[3] == "inconclusive: faster (1 seed, 3+3 layers)"


def test_an_arm_has_mean_and_interval_over_its_seeds_and_how_many_train() -> None:
    evidence = gathered(made_runs("toy", {"postln_warm": {"bleu": 20.0, "loss": 3.0}}))["toy"]
    found = arms_table(evidence)
    row = dict(zip(found["columns"], found["rows"][0], strict=True))
    assert (row["arm"], row["seeds"], row["trains"], row["ceiling"]) == ("postln_warm", 5, "5/5", None)
    assert row["BLEU tok."] == "20 [19.8, 20.2]", "2.776 * 0.158 / sqrt 5"
    assert row["valid loss"] == "3 [2.98, 3.02]" and row["NLL"] == "2 [1.98, 2.02]" and row["skill"] == "1.00"


def test_an_arm_of_which_runs_ended_without_a_number_says_in_how_many() -> None:
    runs = [made(seed=seed, losses=[None] if seed == 2 else [3.0]) for seed in (1, 2, 3)]
    (row,) = arms_table(gathered(runs)["toy"])["rows"]
    assert row[0] == "postln_warm" and row[3:5] == ["none in 1 of 3"] * 2


def test_an_arm_at_three_rates_has_a_row_for_each_and_a_ceiling_and_a_sensitivity() -> None:
    rates = {1e-3: [80.0] * 5, 2e-3: [90.0] * 4 + [20.0], 4e-3: [0.0] * 5}
    found = gathered(on_rates("toy", {"postln_warm": rates, "preln_warm": {1e-3: [80.0]}}))["toy"]
    table = rates_table(found)
    assert [row[:5] for row in table["rows"]] == [
        ["postln_warm", "0.001", 5, "5/5", "0/5"], ["postln_warm", "0.002", 5, "4/5", "1/5"],
        ["postln_warm", "0.004", 5, "0/5", "5/5"],
    ]  # fmt: skip
    arms = arms_table(found)
    first = dict(zip(arms["columns"], arms["rows"][0], strict=True))
    assert (first["arm"], first["ceiling"], first["LR sensitivity"]) == (
        "postln_warm", "0.002", "0.00 [0.00, 0.00] over 0.001 to 0.004"
    )  # fmt: skip
