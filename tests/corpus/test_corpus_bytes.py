"""What is computed here in shards and little memory is what subword-nmt and fairseq compute, byte for byte."""

import io
import random
from collections import Counter

import pytest
from subword_nmt.apply_bpe import BPE

from ln_repro.corpus import build, subwords
from ln_repro.corpus.subwords import learn, segmenter
from tests.corpus.conftest import write
from tests.stock_binariser import binarise


def test_words_are_segmented_as_by_subword_nmt_and_very_long_ones_into_characters(monkeypatch):
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdé", k=draw.randint(1, 9))) for _ in range(2000)]
    codes = learn(Counter(words), 300)
    theirs, ours = BPE(io.StringIO(codes)), segmenter.__wrapped__(codes)
    monkeypatch.setattr(subwords, "LONGEST", 10)
    for line in (" ".join(words), "", " ", " a  unknownß b ", "ab ab "):
        assert ours(line) == theirs.process_line(line)
    assert ours("ab " + "ab" * 6) == "ab " + "@@ ".join("ab" * 6)


@pytest.mark.parametrize("vocabulary", ["own", "given", "large"])
def test_the_binary_files_are_those_of_fairseq_preprocess(made, tmp_path, vocabulary, monkeypatch):
    monkeypatch.setattr(build, "CHUNK_SIZE", 7)
    draw = random.Random(1)
    few = ["ein", "haus", "ist", "zwölf", "house", "x"]
    words = [*few, *(f"w{number}" for number in range(66_000))] if vocabulary == "large" else few
    for split, count in (("train", 30), ("valid", 8), ("test", 1)):
        for lang in ("de", "en"):
            lines = [" ".join(draw.choices(few, k=draw.randint(1, 9))) for _ in range(count)]
            if split == "train":
                lines += [" ".join(words[start : start + 500]) for start in range(0, len(words), 500)]
            write(tmp_path / f"{split}.{lang}", *lines)
    prefixes = {split: tmp_path / split for split in ("train", "valid", "test")}
    first = made("files", bpe_merges=0, **prefixes)
    if vocabulary == "given":
        write(tmp_path / "train.de", "haus neu")
        write(tmp_path / "train.en", "house new")
        first = made("files", bpe_merges=0, vocabulary=first.fingerprint, **prefixes)
    binarise(first.folder / "bpe", tmp_path / "theirs", "de", "en")
    binary = {path.name: path.read_bytes() for path in first.bin.iterdir()}
    assert binary == {path.name: path.read_bytes() for path in (tmp_path / "theirs").iterdir() if path.suffix != ".log"}
    assert len(binary) == 14
