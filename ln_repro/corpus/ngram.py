"""Entropies of the target text without the source, from a unigram and an n-gram model."""

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
BEGIN, END, UNKNOWN = range(3)
MAX_ORDER = 5
MAX_TOKENS = 10_000_000
"""Maximum number of training tokens, including `BEGIN`; of larger training sets, the first sentences are used."""


def entropies(train: Path, valid: Path) -> dict[str, Any]:
    """Return the entropies of a segmented side under models that do not see the other side.

    Both entropies are in bits per token, with the ends of sentences as tokens.

    Returns:
        unigram_bits: the entropy of the training tokens' frequencies.
        source_blind_bits: the lowest validation cross-entropy of the n-gram models (`probabilities`).
        order: the order of that model.
        tokens: the number of training tokens.
    """
    words: dict[str, int] = {}
    train_ids, valid_ids = _read(train, words, grow=True), _read(valid, words, grow=False)
    counts = np.bincount(train_ids[train_ids != BEGIN])
    shares = counts[counts > 0] / counts.sum()
    bits = [-float(np.log2(of_order).mean()) for of_order in probabilities(train_ids, valid_ids, len(words) + 2)]
    return {
        "unigram_bits": round(-float((shares * np.log2(shares)).sum()), 6),
        "source_blind_bits": round(min(bits), 6),
        "order": bits.index(min(bits)) + 1,
        "tokens": int(counts.sum()),
    }


def probabilities(train: Ids, valid: Ids, types: int) -> Iterator[NDArray[np.float64]]:
    """Yield the probability of every validation token under the models of order 1 to `MAX_ORDER`.

    The models use interpolated Witten-Bell smoothing: ``P(w | h) = (c(h w) + t(h) P(w | h')) / (c(h) + t(h))``, where
    ``t(h)`` is the number of types seen after ``h``, and ``h'`` is ``h`` without its first token. The model of order 0
    is the uniform distribution.

    Args:
        train: concatenated sentences, each preceded by ``MAX_ORDER - 1`` times `BEGIN` and followed by `END`.
        valid: likewise; a token that is not in ``train`` is `UNKNOWN`.
        types: number of token types, including `END` and `UNKNOWN`.
    """
    tokens = np.concatenate([train, valid])
    in_train = np.flatnonzero(train != BEGIN)
    in_valid = len(train) + np.flatnonzero(valid != BEGIN)
    probability = np.full(len(in_valid), 1 / types)
    grams = np.zeros_like(tokens)
    for _ in range(MAX_ORDER):
        history = np.concatenate([[0], grams[:-1]])
        pairs = history * (tokens.max() + 1) + tokens
        _, first, grams = np.unique(pairs, return_index=True, return_inverse=True)
        first = first[first < len(train)]
        types_after = np.bincount(history[first[tokens[first] != BEGIN]], minlength=len(tokens))[history[in_valid]]
        tokens_after = np.bincount(history[in_train], minlength=len(tokens))[history[in_valid]]
        counts = np.bincount(grams[in_train], minlength=len(tokens))[grams[in_valid]]
        smoothed = (counts + types_after * probability) / np.maximum(tokens_after + types_after, 1)
        probability = np.where(tokens_after > 0, smoothed, probability)
        yield probability


def _read(path: Path, words: dict[str, int], grow: bool) -> Ids:
    """Return the sentences of a file as `probabilities` expects them; ``grow`` adds new words to ``words``."""
    tokens = array("q")
    number = words.setdefault if grow else words.get
    with path.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            tokens.extend([BEGIN] * (MAX_ORDER - 1))
            tokens.extend(number(word, len(words) + UNKNOWN + 1 if grow else UNKNOWN) for word in line.split())
            tokens.append(END)
            if len(tokens) >= MAX_TOKENS:
                break
    return np.frombuffer(tokens, dtype=np.int64)
