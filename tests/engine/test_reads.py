"""An ordinary update asks for no number of a tensor: on a GPU, the host would wait for the device every time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ln_repro.engine.group import Group
from ln_repro.engine.metric_buffer import MetricBuffer, Update, on_host
from ln_repro.engine.plugin.loss import label_smoothed_nll
from ln_repro.engine.plugin.optimizers import Sgd, SgdConfig
from ln_repro.system.distributed import Rank

SCRIPT = Path(__file__).with_name("reads.py")
SMALL = (
    "--task ln_translation --arch ln_transformer --layers 1 --width 16 --ffn 32 --heads 2 --source-lang de "
    "--target-lang en --criterion ln_cross_entropy --lr-scheduler ln_ramp_and_tail --lr 1e-3 --max-tokens 120 "
    "--max-update 24 --num-workers 0 --log-format none --log-interval 10 --save-interval-updates 7 --clip-norm 0.1 "
    "--update-freq 2 --share-embeddings"
).split()
DUE = {7, 10, 14, 20, 21}
"""Updates after which a report or a state is due."""


@pytest.mark.parametrize("rule", ["ln_adam", pytest.param("ln_sgd", marks=pytest.mark.slow)])
def test_only_updates_after_which_something_is_due_read_numbers(corpus, tmp_path, rule):
    command = [sys.executable, SCRIPT, corpus, *SMALL, "--optimizer", rule, "--save-dir", tmp_path / "checkpoints"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    by_update, pinned = json.loads(done.stdout.splitlines()[-1])
    assert pinned == [True]
    reads = {int(update): found for update, found in by_update.items()}
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    ends = {event["update"] for event in events if event["kind"] == "valid"}
    assert list(reads) == list(range(1, 25)) and ends
    assert {update for update, found in reads.items() if found} == DUE | ends
    assert all(found["tolist"] >= 1 for update, found in reads.items() if update in DUE | ends)


def test_on_a_device_without_numbers_losses_and_gradients_are_computed_all_the_same(build_model):
    """torch's device "meta" has shapes alone: whatever asks for a number, or mixes devices, fails."""
    model = build_model(40, layers=2, width=32, ffn=48, heads=4).to("meta")
    tokens = torch.empty(3, 6, dtype=torch.long, device="meta")
    logits, _ = model(tokens, tokens[:, 0], tokens)
    loss, _ = label_smoothed_nll(logits.reshape(18, -1), tokens.reshape(-1), 0.1, pad=1)
    optimizer = object.__new__(Sgd)
    optimizer.cfg = SgdConfig(max_relative_update=0.01)
    optimizer._optimizer = torch.optim.SGD(model.parameters(), 0.1)
    optimizer.backward(loss)
    optimizer.multiply_grads(1 / 18)
    assert optimizer.clip_grad_norm(0.1).device.type == "meta"
    optimizer.step()
    with pytest.raises(RuntimeError):
        float(loss)


def update(number, loss, gnorm=1.0, tokens=2):
    """Return an update of so many bits per token."""
    nats = torch.tensor(loss * tokens, dtype=torch.double) * torch.tensor(2.0).double().log()
    log = {"loss": nats, "nll_loss": nats, "sample_size": tokens}
    return Update(number, 0.5, [log], torch.tensor(gnorm))


def settled(updates, at_once=True):
    """Return the metrics of some updates, and how they ended."""
    metrics = MetricBuffer(0, None)
    try:
        for one in updates:
            metrics.add(one)
            if not at_once:
                metrics.flush(Group(Rank()))
        metrics.flush(Group(Rank()))
    except FloatingPointError as verdict:
        return metrics, verdict
    return metrics, None


NAN = float("nan")


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(
    ("updates", "last", "counted", "words"),
    [
        ([update(1, 3), update(2, 2), update(3, NAN, NAN), update(4, 1)], 2, 2, "gradients are Nan/Inf"),
        ([update(1, 3), update(2, 2), update(3, NAN), update(4, 1, NAN)], 3, 2, "the loss is not finite"),
        ([update(1, 3), update(2, 2), update(3, 1), update(4, 2)], 4, 4, None),
    ],
)
def test_the_end_of_a_run_does_not_depend_on_when_it_is_read(updates, last, counted, words, at_once):
    metrics, verdict = settled(updates, at_once=at_once)
    assert (str(verdict) if verdict else None) == words
    assert metrics.last.number == last and metrics.sums.tokens == 2 * counted
    assert metrics.last_loss == pytest.approx(2)
    assert metrics.sums.per_token()["loss"] == pytest.approx((3, 5 / 2, 2, 2)[counted - 1])


def test_numbers_of_any_kind_are_read_where_they_are():
    nested = [{"a": torch.tensor(1.5), "b": [torch.tensor(2), 3]}, {"a": torch.tensor(4.0, dtype=torch.double)}]
    assert on_host(nested) == [{"a": 1.5, "b": [2, 3]}, {"a": 4.0}]
    assert on_host([]) == []
