"""What `ln-repro claims` prints about the committed records."""

import json

from ln_repro.records.archive import records_folder


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
