"""The source-blind entropy against a second computation of it, from counts by hand."""

from collections import Counter
from collections.abc import Iterator
from math import log2
from statistics import fmean

import pytest

from ln_repro.corpus.ngram import MAX_ORDER, entropies
from tests.corpus.conftest import write

TRAIN = ("a b a c", "b a", "a b b a", "c", "a b a")
VALID = ("a b a", "b d c a", "c c")
TYPES = ("a", "b", "c", "</s>", "<unk>")


def padded(line: str) -> list[str]:
    words = [word if word in TYPES or word == "<s>" else "<unk>" for word in line.split()]
    return ["<s>"] * (MAX_ORDER - 1) + words + ["</s>"]


def places(text: tuple[str, ...]) -> Iterator[tuple[list[str], int]]:
    """Yield every token to be predicted: its padded line, and where it stands there."""
    return ((line, end) for line in map(padded, text) for end in range(MAX_ORDER - 1, len(line)))


def brute(history: tuple[str, ...], word: str) -> float:
    """Return P(word | history) with Witten-Bell smoothing, straight from its definition."""
    lower = brute(history[1:], word) if history else 1 / len(TYPES)
    after = Counter(line[end] for line, end in places(TRAIN) if tuple(line[end - len(history) : end]) == history)
    return (after[word] + len(after) * lower) / (after.total() + len(after)) if after else lower


def test_it_is_the_definition_and_the_best_order_is_taken(tmp_path):
    entropy = entropies(write(tmp_path / "train", *TRAIN), write(tmp_path / "valid", *VALID))
    bits = [fmean(-log2(brute(tuple(line[end - past : end]), line[end])) for line, end in places(VALID))
            for past in range(MAX_ORDER)]  # fmt: skip
    assert len({round(value, 3) for value in bits}) == MAX_ORDER  # or the order would not be told
    assert entropy["source_blind_bits"] == pytest.approx(min(bits), abs=1e-6)
    assert bits[entropy["order"] - 1] == min(bits)
    counts = Counter(token for line in TRAIN for token in [*line.split(), "</s>"])
    shares = [count / counts.total() for count in counts.values()]
    assert entropy["unigram_bits"] == pytest.approx(-sum(share * log2(share) for share in shares), abs=1e-6)
    assert entropy["tokens"] == counts.total()
