"""The mini-batches of a training set are fairseq's, though they are not made sentence by sentence."""

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary
from fairseq.data.data_utils import batch_by_size
from fairseq.data.indexed_dataset import MMapIndexedDataset
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from ln_repro.engine.plugin.bert import LnMaskedLm
from ln_repro.engine.plugin.tasks import Pairs
from tests.engine.made import translation
from tests.examples import experiment


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


def test_mini_batches_are_fairseqs_in_the_same_order(tmp_path):
    ours, blocks, theirs = all_three = tasks(corpus(tmp_path / "corpus", 5_000))
    for task in all_three:
        task.load_dataset("train")
    found, expected = batches_of(ours), batches_of(theirs)
    for epoch in (1, 2):
        pairs = zip(*(batches.ordered_batches(epoch, False, True) for batches in (found, expected)), strict=True)
        assert all(np.array_equal(batch, same) for batch, same in pairs) and len(found) > 100
    dataset = blocks.dataset("train")
    one_by_one = batch_by_size(dataset.ordered_indices(), dataset.num_tokens, max_tokens=512)
    pairs = zip(batches_of(blocks).frozen_batches, one_by_one, strict=True)
    assert all(np.array_equal(batch, same) for batch, same in pairs) and len(one_by_one) > 100


@pytest.mark.parametrize("left", [True, False], ids=["padded on the left", "on the right"])
def test_a_mini_batch_is_fairseqs_number_by_number(tmp_path, left):
    _, _, theirs = tasks(corpus(tmp_path / "corpus", 400))
    theirs.cfg.left_pad_source = left
    theirs.load_dataset("train")
    expected = theirs.dataset("train")
    sides = (expected.src, expected.src_sizes, expected.src_dict, expected.tgt, expected.tgt_sizes, expected.tgt_dict)
    found = Pairs(*sides, left_pad_source=left)
    order = np.random.default_rng(1).permutation(400).tolist()
    for size in (1, 2, 7, 100):
        for first in range(0, 400 - size, size):
            indices = order[first : first + size]
            batch, same = (data.collater([data[index] for index in indices]) for data in (found, expected))
            torch.testing.assert_close(batch, same, rtol=0, atol=0)
    assert found.collater([]) == expected.collater([]) == {}
