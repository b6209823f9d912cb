"""The findings of the theory as tables."""

import json
from pathlib import Path

from rich.console import Console

from ln_repro.report.theory import terminal_table
from ln_repro.theory.checks import CLAIMS

ROOT = Path(__file__).resolve().parents[2]
FINDING = {
    "id": "TH-0", "statement": "A statement of some length that has to be broken in two", "paper": "1.5 | 2",
    "values": {}, "quantity": "slope on l", "interval": [None, 1.23456], "rule": "below 2", "verdict": "inconclusive",
    "seeds": 1,
}  # fmt: skip


def test_the_terminal_shows_id_verdict_and_what_the_interval_is_of() -> None:
    console = Console(width=80)
    with console.capture() as captured:
        console.print(terminal_table([FINDING]))
    _, _, first, second, third, *_ = captured.get().splitlines()
    assert first.split()[0] == "TH-0" and first.rstrip().endswith("slope on l")
    assert second.split()[0] == "inconclusive" and second.rstrip().endswith("- .. 1.23")
    assert third.rstrip().endswith("1 seeds")


def test_the_committed_record_holds_every_finding_and_figure() -> None:
    kept = json.loads((ROOT / "results" / "theory.json").read_text())
    assert [found["id"] for found in kept["findings"]] == list(CLAIMS)
    assert {"figure_3", "attention_gradients", "hidden_states", "shares", "simplified_gradients"} == set(
        kept["figures"]
    )
    assert kept["code"]["git"] and not kept["code"]["dirty"]
    assert min(part["seeds"] for found in kept["findings"] for part in found["parts"]) == 10
    assert not any(found["note"] for found in kept["findings"]), "nothing is left out, and all is decided"
