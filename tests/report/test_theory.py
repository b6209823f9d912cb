"""The findings of the theory as tables."""

import json
from pathlib import Path

from ln_repro.theory.checks import CLAIMS

ROOT = Path(__file__).resolve().parents[2]


def test_the_committed_record_holds_every_finding_and_figure() -> None:
    kept = json.loads((ROOT / "results" / "theory.json").read_text())
    assert [found["id"] for found in kept["findings"]] == list(CLAIMS)
    assert {"figure_3", "attention_gradients", "hidden_states", "shares", "simplified_gradients"} == set(
        kept["figures"]
    )
    assert kept["code"]["git"] and not kept["code"]["dirty"]
    assert min(part["seeds"] for found in kept["findings"] for part in found["parts"]) == 10
    assert not any(found["note"] for found in kept["findings"]), "nothing is left out, and all is decided"
