"""What a training set costs by its size, and that its mini-batches are fairseq's."""

import sys
import tracemalloc

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary
from fairseq.data.data_utils import batch_by_size
from fairseq.data.indexed_dataset import MMapIndexedDataset
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from ln_repro.engine.plugin.masked_lm import LnMaskedLm
from ln_repro.engine.plugin.translation import Pairs
from tests.engine.made import translation
from tests.examples import experiment

CALLS, MOST, KEPT = range(3)


def tasks(folder):
    """Return our translation task, our masked language model, and fairseq's translation task."""
    blocks = LnMaskedLm(experiment(task="masked_lm", train__block_tokens=9), folder)
    cfg = {"data": str(folder), "source_lang": "de", "target_lang": "en", "dataset_impl": "mmap",
           "required_seq_len_multiple": 1}  # fmt: skip
    return translation(folder), blocks, TranslationTask.setup_task(TranslationConfig(**cfg))


def corpus(folder, pairs):
    """Write a binarised training set of random tokens; lengths do not depend on those of the other side."""
    draw = np.random.default_rng(pairs)
    folder.mkdir()
    for side in ("de", "en"):
        Dictionary().save(str(folder / f"dict.{side}.txt"))
        sizes = draw.integers(1, 40, pairs)
        draw.integers(4, 1000, sizes.sum(), dtype=np.uint16).tofile(folder / f"train.de-en.{side}.bin")
        with MMapIndexedDataset.Index.writer(str(folder / f"train.de-en.{side}.idx"), np.uint16) as index:
            index.write(sizes.tolist())
    return folder


def batches_of(task):
    """Return the epoch iterator of the training set, which is loaded."""
    longest = task.max_positions() or 1024
    return task.get_batch_iterator(task.dataset("train"), max_tokens=512, max_positions=longest, seed=1)


def cost(work):
    """Return a result, with the number of calls, and the bytes that were allocated at most and that are kept."""
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += "call" in event

    tracemalloc.start()
    sys.setprofile(count)
    try:
        result = work()
    finally:
        sys.setprofile(None)
        kept, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return result, np.array([calls, most, kept])


@pytest.mark.parametrize("kind", [0, 1], ids=["translation", "masked_lm"])
def test_a_sentence_costs_no_call_and_few_bytes_at_the_start_and_nothing_in_an_epoch(tmp_path, kind):
    sizes, costs = [], []
    for pairs in (1_000, 5_000, 45_000):  # the first one pays for imports
        task = tasks(corpus(tmp_path / str(pairs), pairs))[kind]
        _, loading = cost(lambda task=task: task.load_dataset("train"))
        batches, batching = cost(lambda task=task: batches_of(task))
        _, epoch = cost(batches.next_epoch_itr)
        costs.append([loading, batching, epoch])
        sizes.append(len(batches.dataset))
    loading, batching, epoch = np.diff(costs, axis=0)[-1] / np.diff(sizes)[-1]
    start = loading + batching
    assert start[CALLS] < 0.5 and start[KEPT] < 40 and batching[MOST] < 60
    assert epoch[CALLS] < 0.5 and epoch[MOST] < 2  # the order of the mini-batches; new ones would take 8 bytes each


def test_mini_batches_are_fairseqs_in_the_same_order(tmp_path):
    ours, blocks, theirs = all_three = tasks(corpus(tmp_path / "corpus", 5_000))
    for task in all_three:
        task.load_dataset("train")
    found, expected = batches_of(ours), batches_of(theirs)
    for epoch in (1, 2):
        pairs = zip(*(each.ordered_batches(epoch, False, True) for each in (found, expected)), strict=True)
        assert all(np.array_equal(one, other) for one, other in pairs) and len(found) > 100
    dataset = blocks.dataset("train")
    one_by_one = batch_by_size(dataset.ordered_indices(), dataset.num_tokens, max_tokens=512)
    pairs = zip(batches_of(blocks).frozen_batches, one_by_one, strict=True)
    assert all(np.array_equal(one, other) for one, other in pairs) and len(one_by_one) > 100


@pytest.mark.parametrize("left", [True, False], ids=["padded on the left", "on the right"])
def test_a_mini_batch_is_fairseqs_number_by_number(tmp_path, left):
    _, _, theirs = tasks(corpus(tmp_path / "corpus", 400))
    theirs.cfg.left_pad_source = left
    theirs.load_dataset("train")
    expected = theirs.dataset("train")
    found = Pairs(expected)
    order = np.random.default_rng(1).permutation(400).tolist()
    for size in (1, 2, 7, 100):
        for first in range(0, 400 - size, size):
            batch, same = (data.collater([data[index] for index in order[first : first + size]])
                           for data in (found, expected))  # fmt: skip
            torch.testing.assert_close(batch, same, rtol=0, atol=0)
    assert found.collater([]) == expected.collater([]) == {}
