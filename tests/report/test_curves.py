"""The picture is drawn, also from a run that diverged."""

from pathlib import Path

import pytest

from ln_repro.report.curves import draw_losses


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_curves_are_drawn(suffix: str, tmp_path: Path) -> None:
    events = [{"kind": "train", "update": update, "loss": 9.0 / update} for update in (1, 2, 3)]
    broken = [*events, {"kind": "train", "update": 4, "loss": None}, {"kind": "valid", "update": 4, "loss": 1.0}]
    runs = {
        "Pre-LN": ({"norm": "preln", "warmup_updates": 0}, events),
        "Post-LN": ({"norm": "postln", "warmup_updates": 4000}, broken),
        "none yet": ({"norm": "deepnorm", "warmup_updates": 0}, []),
    }
    out = tmp_path / f"it's a curve.{suffix}"
    draw_losses(runs, out, "a title")
    content = out.read_bytes()
    assert content.startswith(b"\x89PNG" if suffix == "png" else b"<?xml") and len(content) > 5000
