"""Events to wandb's rows, without wandb."""

import json
from pathlib import Path
from typing import Any

import pytest

from ln_repro.records.events import Events
from ln_repro.tracking.follower import refuse_secrets, row, until


def train_event(update: int, **more: Any) -> dict[str, Any]:
    """Return an event as training writes it."""
    return {"kind": "train", "time": "2026-01-02T03:04:05+00:00", "update": update, "epoch": 1,
            "loss": 10 / update, "lr": 1e-3, "tokens_per_s": 100.0, **more}  # fmt: skip


def test_rows_are_named_as_wandb_groups_them() -> None:
    assert row(train_event(5, nll_loss=None)) == {
        "train/loss": 2.0, "train/lr": 1e-3, "train/tokens_per_s": 100.0, "update": 5, "epoch": 1,
        "_timestamp": 1767323045.0,
    }  # fmt: skip
    always = {"time": "2026-01-02T03:04:05Z", "update": 7, "epoch": 2}
    bleu = {"kind": "bleu", "split": "test", "score": 1.5, "signature": "s", **always}
    assert row(bleu)["bleu/test"] == 1.5
    assert row(bleu | {"flavour": "tokenised"})["bleu/test_tokenised_signature"] == "s"
    probe = {"kind": "probe", "name": "gradients", "values": {"decoder.5": 0.5, "norms": [1, 2]}, **always}
    assert {"probe/gradients/decoder.5": 0.5, "probe/gradients/norms/1": 2}.items() <= row(probe).items()
    assert row({"kind": "status", "state": "running", "parameters": 7, **always}) == {}


def test_the_end_of_the_file_is_read_even_if_the_command_has_ended(tmp_path: Path) -> None:
    events = Events(tmp_path / "events.jsonl")
    lines = [json.dumps(train_event(update)) + "\n" for update in (1, 2, 3)]
    looks = iter(["", lines[0] + lines[1][:9], lines[1][9:], lines[2] + "{torn"])

    def ended() -> bool:
        if text := next(looks):
            with events.path.open("a") as file:
                file.write(text)
        return text.endswith("torn")

    assert [event["update"] for event in until(events, ended)] == [1, 2, 3]


def test_nothing_named_like_a_secret_is_sent() -> None:
    with pytest.raises(ValueError, match="api_key"):
        refuse_secrets({"eval": {"api_key": "x"}})
