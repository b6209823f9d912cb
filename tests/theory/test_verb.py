"""`ln-repro theory`, as it is typed."""

import json
from pathlib import Path

import pytest

from ln_repro import cli
from ln_repro.theory import plan
from ln_repro.theory.plan import Scale

KEYS = ["id", "statement", "paper", "values", "quantity", "interval", "rule", "verdict", "seeds"]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LN_REPRO_RUNS", str(tmp_path / "runs"))
    return tmp_path


def test_json_holds_the_findings_that_were_asked_for(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["theory", "--only", "TH-4", "TH-1", "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)
    assert [list(finding) for finding in findings] == [KEYS, KEYS]
    assert [(finding["id"], finding["verdict"], finding["seeds"]) for finding in findings] == [
        ("TH-1", "reproduced", 10),
        ("TH-4", "reproduced", 10),
    ]
    kept = place / "runs" / "theory" / "measurements.jsonl"
    before = kept.read_bytes()
    assert cli.main(["theory", "--only", "TH-1", "--out", str(place / "out")]) == 0
    assert kept.read_bytes() == before, "nothing is measured twice"
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["claim", "statement", "paper", "ours,", "95", "%"]
    assert table[3].startswith("reproduced") and max(map(len, table)) <= 80
    assert [found["id"] for found in json.loads((place / "out" / "theory.json").read_text())["findings"]] == ["TH-1"]


@pytest.mark.slow
def test_everything_is_measured_judged_and_drawn(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it, at a small scale."""
    monkeypatch.setattr(plan, "QUICK", Scale((16,), (2, 3), (1, 2), 5))
    monkeypatch.setattr(plan, "REAL", {"width": 16, "ffn": 32})
    assert cli.main(["theory", "--json", "--out", str(place)]) == 0
    findings = json.loads(capsys.readouterr().out)
    assert [finding["id"] for finding in findings] == list(plan.JUDGES)
    written = json.loads((place / "theory.json").read_text())
    assert written["findings"] == findings
    assert list(written["figures"]) == ["figure_3", "attention_gradients", "hidden_states"]
    for name in written["figures"]:
        assert (place / "figures" / f"{name}.png").stat().st_size > 10_000
        assert (place / "figures" / f"{name}.svg").read_text().startswith("<?xml")
