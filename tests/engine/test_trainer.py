"""fp16's loss scale, each mini-batch's own dropout, and the unigram entropy."""

import math
from itertools import pairwise
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from fairseq.optim.dynamic_loss_scaler import DynamicLossScaler
from fairseq.trainer import Trainer

from ln_repro.engine.plugin.optimizers import Sgd, SgdConfig
from ln_repro.engine.trainer import STREAMS_APART, StrictTrainer, seeded


def sgd(scale):
    param = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    optimizer = Sgd(SgdConfig(lr=[0.5]), [param])
    optimizer.scaler = DynamicLossScaler(scale, scale_window=2)
    return optimizer, param


@pytest.mark.parametrize(("most", "stepped"), [(0, [1.5, 2.0]), (2.5, [2.25, 3.0])])
def test_the_loss_scale_leaves_norm_clipping_and_step_as_they_are(most, stepped):
    optimizer, param = sgd(2.0**7)
    optimizer.backward((param**2).sum() / 2)
    assert param.grad.tolist() == [3.0 * 2**7, 4.0 * 2**7]
    assert float(optimizer.clip_grad_norm(most)) == 5.0
    optimizer.step()
    assert param.tolist() == pytest.approx(stepped)


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


def test_a_resumed_scaler_has_the_same_state(monkeypatch):
    saved = {}
    monkeypatch.setattr(Trainer, "consolidate_optimizer", lambda self: None)
    monkeypatch.setattr(Trainer, "save_checkpoint", lambda self, name, extra: saved.update(extra))
    monkeypatch.setattr(Trainer, "load_checkpoint", lambda self, name: saved)
    first, second = (object.__new__(StrictTrainer) for _ in range(2))
    for trainer in (first, second):
        trainer.cfg = SimpleNamespace(distributed_training=SimpleNamespace(distributed_world_size=1))
        trainer._optimizer, _ = sgd(8.0)
    scaler, restored = first.optimizer.scaler, second.optimizer.scaler
    for _ in range(5):
        scaler.update()
    with pytest.raises(OverflowError):
        scaler.check_overflow(math.inf)
    assert vars(scaler) != vars(restored)
    first.save_checkpoint("state", {"train_iterator": {"iterations_in_epoch": 0}})
    second.load_checkpoint("state")
    assert vars(scaler) == vars(restored)


def test_a_checkpoint_is_not_to_be_deleted_because_memory_is_lacking(monkeypatch):
    monkeypatch.setattr(Trainer, "load_checkpoint", mock.Mock(side_effect=torch.OutOfMemoryError("CUDA out of memory")))
    with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
        object.__new__(StrictTrainer).load_checkpoint("update100.pt")


def test_every_mini_batch_has_the_same_dropout_on_one_process_as_on_two():
    batches = [{"id": number} for number in range(6)]
    alone = seeded(batches, 12, 0, 1)
    assert alone[0]["seed"] == 12 and len({sample["seed"] for sample in alone}) == 6
    assert seeded(batches[::2], 12, 0, 2) == alone[::2] and seeded(batches[1::2], 12, 1, 2) == alone[1::2]


def test_the_dropout_of_a_mini_batch_is_that_of_no_update_near_it():
    low = [0, *sorted(number * STREAMS_APART % 2**32 for number in range(1, 1000)), 2**32]
    assert min(after - before for before, after in pairwise(low)) > 1_000_003  # between neighbouring seeds


def test_what_fills_up_a_share_is_left_out_unless_it_is_all():
    assert [sample["id"] for sample in seeded([{"id": 1}, {}], 12, 1, 2)] == [1]
    assert seeded([{}, {}], 12, 1, 2) == [{}]
