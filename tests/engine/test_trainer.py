"""Clipping, each mini-batch's own dropout, and the unigram entropy."""

from itertools import pairwise
from unittest import mock

import pytest
import torch
from fairseq.trainer import Trainer

from ln_repro.engine.trainer import STREAMS_APART, StrictTrainer, seeded
from tests.engine.made import sgd


@pytest.mark.parametrize(("most", "stepped"), [(0, [1.5, 2.0]), (2.5, [2.25, 3.0])])
def test_the_norm_is_that_before_clipping(most, stepped):
    param = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    optimizer = sgd([param], 0.5)
    optimizer.backward((param**2).sum() / 2)
    assert float(optimizer.clip_grad_norm(most)) == 5.0
    optimizer.step()
    assert param.tolist() == pytest.approx(stepped)


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
