"""What `ln-repro claims` prints about the committed records."""

import json
from pathlib import Path

from tests.examples import record, store


def test_all_claims_fit_into_eighty_columns_with_their_effects(call) -> None:
    (_, rows, _), (code, text, _) = call("claims", "--json"), call("claims")
    assert code == 0 and max(map(len, text.splitlines())) <= 80
    for row in json.loads(rows):
        assert (row["id"] in text) == bool(row["other_corpora"] or row["id"].startswith("TH")), row["id"]


def test_one_claim_has_its_rule_records_needs_and_command(call) -> None:
    (row, _) = json.loads(call("claims", "MT-4", "--json", "MT-5")[1])
    text = call("claims", "MT-4")[1]
    words = " ".join(text.split())
    for part in (row, *row["other_corpora"]):
        assert f"{part['rule']} ({part['written']}: {part['source']})" in words
        assert all(id in text for id in part["evidence"])
        assert (part["needs"] or "") in words
        assert (f"run {part['command']}" in words) == bool(part["needs"])
        assert {"effect", "interval", "seeds", "verdict", "replicated"} <= part.keys()
    assert row["command"] in text.replace("\n", "¶")  # on one line, to be copied


def test_a_finding_of_the_theory_that_is_not_there_has_its_command(call, tmp_path: Path) -> None:
    store(tmp_path / "records", record())
    text = call("claims", "TH-1", "--records", str(tmp_path / "records"))[1]
    assert "theory: not-run\n  needs      its check, without training\n" in text
    assert "  run        ln-repro theory --full --only TH-1\n" in text
