"""Our model, loss, optimizer and loop against stock fairseq's training program, update by update."""

import json
import subprocess
import sys
from pathlib import Path
from statistics import fmean

import pytest

ROOT = Path(__file__).resolve().parents[2]
TRACE = Path(__file__).with_name("loss_trace.py")
COMMON = (
    "--source-lang de --target-lang en --label-smoothing 0.1 --lr 1e-4 --clip-norm 0 --seed 7 --max-tokens 120 "
    "--max-update 20 --num-workers 0 --distributed-world-size 1 --dropout 0.1 --log-format none"
).split()
STOCK = (
    "--task translation --arch transformer_iwslt_de_en --share-all-embeddings --criterion label_smoothed_cross_entropy "
    "--optimizer adam --lr-scheduler fixed --disable-validation --no-save"
).split()
OURS = (
    "--task ln_translation --arch ln_transformer --init fairseq --layers 6 --width 512 --ffn 1024 --heads 4 "
    "--share-embeddings --criterion ln_cross_entropy --optimizer ln_adam --lr-scheduler ln_ramp_and_tail "
    "--decay constant --save-interval-updates 1000"
).split()
PRE = ["--encoder-normalize-before", "--decoder-normalize-before"]


def losses(who, arguments):
    command = [sys.executable, str(TRACE), who, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["postln", "preln"])
def test_first_twenty_losses_equal_stock_fairseqs(letters, tmp_path, norm):
    """The same seed, dropout on, the IWSLT14 model: initialisation, masks, loss and steps all agree."""
    arguments = [letters, *COMMON, *STOCK, "--adam-betas", "(0.9, 0.98)", *(PRE if norm == "preln" else [])]
    stock = losses("stock", [*arguments, "--save-dir", tmp_path])
    ours = losses("ours", [letters, *COMMON, *OURS, "--norm", norm, "--save-dir", tmp_path / "checkpoints"])
    nudged = losses("nudged", [*arguments, "--save-dir", tmp_path / "nudged"])
    assert len(stock) == len(ours) == len(nudged) == 20
    by_rounding = max(abs(here - there) for here, there in zip(nudged, stock, strict=True))
    assert ours == pytest.approx(stock, rel=0, abs=100 * by_rounding) and by_rounding < 1e-3
    assert max(stock) - min(stock) > 1  # it is a training run, not twenty equal numbers


@pytest.mark.slow
@pytest.mark.parametrize("exp", ["multi30k_preln_nowarm_anchored", "multi30k_postln_warm"])
def test_every_one_of_two_hundred_updates_is_stock_fairseqs(letters, exp):
    """Begun at the same parameters and moments, an update ends at the same; apart, both drift as rounding makes them.

    What rounding does is measured by stock fairseq itself, with its parameters changed by one rounding.
    """
    tiny = ["model.layers=1", "model.width=16", "model.ffn=32", "model.heads=2", "train.max_tokens=120"]
    command = [sys.executable, "-m", "tests.engine.side_by_side", str(letters), "200", f"exp={exp}", *tiny]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    updates = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(updates) == 200 and updates[0]["loss"] - updates[-1]["loss"] > 0.5
    mean = {name: fmean(abs(update[name]) for update in updates) for name in updates[0]}
    assert 0 < mean["step"] < 5 * mean["rounding step"]
    assert 0 < mean["parameters"] < 5 * mean["rounding parameters"]
    assert 0 < mean["free"] < 100 * mean["nudged"]
