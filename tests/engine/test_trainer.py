"""fp16's loss scale, each mini-batch's own dropout, and the unigram entropy."""

import math
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from fairseq.optim.dynamic_loss_scaler import DynamicLossScaler
from fairseq.trainer import Trainer

from ln_repro.engine import training
from ln_repro.engine.plugin.optimizers import Sgd, SgdConfig
from ln_repro.engine.trainer import STREAMS_APART, StrictTrainer


def sgd(scale):
    param = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    optimizer = Sgd(SgdConfig(lr=[0.5]), [param])
    if scale:
        optimizer.scaler = DynamicLossScaler(scale, scale_window=2)
    return optimizer, param


@pytest.mark.parametrize("scale", [None, 2.0**7])
def test_the_loss_scale_leaves_norm_and_step_as_they_are(scale):
    optimizer, param = sgd(scale)
    optimizer.backward((param**2).sum() / 2)
    if scale:
        assert param.grad.tolist() == [3.0 * scale, 4.0 * scale]
    assert float(optimizer.clip_grad_norm(0)) == 5.0
    optimizer.step()
    assert param.tolist() == [1.5, 2.0]


def test_an_overflow_halves_the_scale_and_calm_doubles_it():
    optimizer, param = sgd(8.0)
    optimizer.backward(param.sum() * math.inf)
    with pytest.raises(OverflowError):
        optimizer.clip_grad_norm(0)
    assert optimizer.scaler.loss_scale == 4.0
    for _ in range(4):
        optimizer.zero_grad()
        optimizer.backward(param.sum())
        optimizer.clip_grad_norm(0)
    assert optimizer.scaler.loss_scale > 4.0


def test_the_scale_has_a_minimum():
    optimizer, param = sgd(1.5e-4)
    optimizer.backward(param.sum() * math.nan)
    with pytest.raises(FloatingPointError, match="Minimum loss scale"):
        optimizer.clip_grad_norm(0)


def test_a_resumed_scaler_changes_the_scale_at_the_same_update(monkeypatch):
    saved = {}
    monkeypatch.setattr(Trainer, "consolidate_optimizer", lambda self: None)
    monkeypatch.setattr(Trainer, "save_checkpoint", lambda self, name, extra: saved.update(extra))
    monkeypatch.setattr(Trainer, "load_checkpoint", lambda self, name: saved)

    def scales(made, updates):
        """Return the scale after each of some updates, the third of which overflows."""
        scaler = made.optimizer.scaler
        for update in updates:
            if update == 3:
                with pytest.raises(OverflowError):
                    scaler.check_overflow(math.inf)
            else:
                scaler.update()
            yield scaler.loss_scale

    whole, first, second = (trainer() for _ in range(3))
    for made in (whole, first, second):
        made._optimizer, _ = sgd(8.0)
        made._optimizer.scaler.scale_window = 5
    expected = list(scales(whole, range(1, 20)))
    begun = list(scales(first, range(1, 6)))
    first.save_checkpoint("state", {"train_iterator": {"iterations_in_epoch": 0}})
    second.load_checkpoint("state")
    assert begun + list(scales(second, range(6, 20))) == expected
    assert len(set(expected)) > 3


def trainer(rank=0, processes=1, updates=5):
    made = object.__new__(StrictTrainer)
    made.cfg = SimpleNamespace(
        common=SimpleNamespace(seed=7),
        distributed_training=SimpleNamespace(distributed_world_size=processes),
    )
    made._num_updates = updates
    made.__class__ = type("Fixed", (StrictTrainer,), {
        "data_parallel_world_size": processes, "data_parallel_rank": rank,
    })  # fmt: skip
    return made


def test_every_mini_batch_has_the_same_dropout_on_one_process_as_on_two():
    batches = [{"id": number} for number in range(6)]
    alone = {sample["id"]: sample["seed"] for sample in trainer().seed_microbatches(batches)}
    assert alone[0] == 7 + 5  # fairseq's own seed
    assert len(set(alone.values())) == 6
    shared = {}
    for rank in range(2):
        for sample in trainer(rank, 2).seed_microbatches(batches[rank::2]):
            shared[sample["id"]] = sample["seed"]
    assert shared == alone


def test_the_dropout_of_a_mini_batch_is_that_of_no_update_near_it():
    low = [0, *sorted(number * STREAMS_APART % 2**32 for number in range(1, 1000)), 2**32]
    assert min(after - before for before, after in pairwise(low)) > 1_000_003  # between neighbouring seeds


def test_what_fills_up_a_share_is_left_out_unless_it_is_all():
    assert [sample["id"] for sample in trainer(1, 2).seed_microbatches([{"id": 1}, {}])] == [1]
    assert trainer(1, 2).seed_microbatches([{}, {}]) == [{}]


def test_the_entropy_is_that_of_the_tokens_and_a_sample_is_enough(monkeypatch):
    targets = [torch.tensor([5, 6, 7, 8])] * 100
    assert training.unigram_entropy(targets) == pytest.approx(2.0)
    assert training.unigram_entropy([torch.tensor([5, 5, 5, 6])]) == pytest.approx(0.8113, abs=1e-4)
    monkeypatch.setattr(training, "ENTROPY_SENTENCES", 7)
    assert training.unigram_entropy(targets) == pytest.approx(2.0)
