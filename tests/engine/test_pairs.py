"""Mini-batches cut out at once are fairseq's, number by number."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary, LanguagePairDataset
from fairseq.data.data_utils import load_indexed_dataset

from ln_repro.engine.plugin.pairs import Pairs
from tests.stock_binariser import binarise


@pytest.fixture(params=[True, False], ids=["padded on the left", "on the right"])
def theirs(tmp_path: Path, request: pytest.FixtureRequest) -> LanguagePairDataset:
    """Return a corpus as fairseq loads it; how long a sentence is says nothing of the other's length."""
    draw = random.Random(1)
    for split in ("train", "valid", "test"):
        for side in ("de", "en"):
            lines = (" ".join(draw.choices("abcdefghij", k=draw.randint(1, 12))) for _ in range(400))
            (tmp_path / f"{split}.{side}").write_text("".join(f"{line}\n" for line in lines))
    binarise(tmp_path, tmp_path / "bin", "de", "en")
    words = Dictionary.load(str(tmp_path / "bin" / "dict.de.txt"))
    source, target = (load_indexed_dataset(f"{tmp_path}/bin/train.de-en.{side}", words) for side in ("de", "en"))
    return LanguagePairDataset(
        source, source.sizes, words, target, target.sizes, words, left_pad_source=request.param, left_pad_target=False
    )


def same(one: Any, other: Any) -> bool:
    """Whether two nested mini-batches hold the same."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return type(one) is type(other) and one == other


def test_every_mini_batch_is_fairseqs(theirs: LanguagePairDataset) -> None:
    ours = Pairs(theirs)
    assert len(ours) == len(theirs) > 100 and (ours.sizes == theirs.sizes).all()
    assert len(set(map(tuple, theirs.sizes.tolist()))) > 100
    for size in (1, 2, 7, 100):
        for first in range(0, len(ours) - size, size):
            chosen = [(7 * index) % len(ours) for index in range(first, first + size)]
            found = ours.collater([ours[index] for index in chosen])
            assert same(found, theirs.collater([theirs[index] for index in chosen])), chosen
    assert ours.collater([]) == theirs.collater([]) == {}
