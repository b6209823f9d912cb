"""Our model, loss, optimizer and update against stock fairseq's, update by update."""

import json
import subprocess
import sys
from pathlib import Path
from statistics import fmean

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
TINY = ["model.layers=1", "model.width=16", "model.ffn=32", "model.heads=2"]
PAPER = ["model.layers=2", "init=fairseq", "lr=1e-4"]
"""The paper's widths, at which a gradient is often smaller than Adam's epsilon."""


@pytest.mark.slow
@pytest.mark.parametrize(("exp", "number", "settings"), [
    ("multi30k_preln_nowarm_anchored", 200, TINY),
    ("multi30k_postln_warm", 200, TINY),
    ("iwslt_preln_nowarm", 20, PAPER),
    ("iwslt_postln_nowarm", 20, PAPER),
])  # fmt: skip
def test_every_update_is_stock_fairseqs(letters, exp, number, settings):
    """Started from the same parameters and moments, an update gives the same result.

    What rounding does is measured by stock fairseq itself, with its parameters changed by one rounding; for the loss it
    is taken to be one rounding of the loss at least, as on some processors few of these losses differ at all. With
    fairseq's initialisation, both start at the same parameters by the seed alone.
    """
    given = [str(letters), str(number), f"exp={exp}", "train.max_tokens=120", *settings]
    command = [sys.executable, "-m", "tests.engine.side_by_side", *given]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    updates = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(updates) == number and updates[0]["loss"] - updates[-1]["loss"] > 0.5
    mean = {name: fmean(abs(update[name]) for update in updates) for name in updates[0]}
    assert mean["rounding parameters"] > 0
    assert mean["step"] < 5 * max(mean["rounding step"], torch.finfo(torch.float32).eps / 2 * mean["loss"])
    assert mean["parameters"] < 5 * mean["rounding parameters"]
