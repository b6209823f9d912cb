"""Entropies of the target language without the source: of unigrams and of an n-gram model."""

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
"""Most training tokens, with `BEGIN`; of larger training sets the first sentences are used."""


def entropies(train: Path, valid: Path) -> dict[str, Any]:
    """Return the entropies of a segmented side under models that do not see the other side.

    ``unigram_bits`` is the entropy of the training tokens' frequencies, ``source_blind_bits`` the lowest validation
    cross-entropy of the n-gram models (`probabilities`), and ``order`` the order of that model; both entropies are in
    bits per token, with the ends of sentences. ``tokens`` is the number of training tokens.
    """
    words: dict[str, int] = {}
    seen, asked = _read(train, words, grow=True), _read(valid, words, grow=False)
    counts = np.bincount(seen[seen != BEGIN])
    shares = counts[counts > 0] / counts.sum()
    bits = [-float(np.log2(found).mean()) for found in probabilities(seen, asked, len(words) + 2)]
    return {
        "unigram_bits": round(-float((shares * np.log2(shares)).sum()), 6),
        "source_blind_bits": round(min(bits), 6),
        "order": bits.index(min(bits)) + 1,
        "tokens": int(counts.sum()),
    }


def probabilities(train: Ids, valid: Ids, types: int) -> Iterator[NDArray[np.float64]]:
    """Yield the probability of every validation token under the models of order 1 to `MAX_ORDER`.

    Interpolated Witten-Bell smoothing: ``P(w | h) = (c(h w) + t(h) P(w | h')) / (c(h) + t(h))``, where ``t(h)`` is the
    number of types seen after ``h``, and ``h'`` is ``h`` without its first token; the base is a uniform distribution.

    Args:
        train: concatenated sentences, each with ``MAX_ORDER - 1`` times `BEGIN` before and `END` after it.
        valid: the same; a token that is not in ``train`` is `UNKNOWN`.
        types: number of token types, `END` and `UNKNOWN` included.
    """
    tokens = np.concatenate([train, valid])
    seen = np.flatnonzero(train != BEGIN)
    asked = len(train) + np.flatnonzero(valid != BEGIN)
    found = np.full(len(asked), 1 / types)
    grams = np.zeros_like(tokens)
    for _ in range(MAX_ORDER):
        history = np.concatenate([[0], grams[:-1]])
        pairs = history * (tokens.max() + 1) + tokens
        _, first, grams = np.unique(pairs, return_index=True, return_inverse=True)
        first = first[first < len(train)]
        kinds = np.bincount(history[first[tokens[first] != BEGIN]], minlength=len(tokens))[history[asked]]
        after = np.bincount(history[seen], minlength=len(tokens))[history[asked]]
        counts = np.bincount(grams[seen], minlength=len(tokens))[grams[asked]]
        found = np.where(after > 0, (counts + kinds * found) / np.maximum(after + kinds, 1), found)
        yield found


def _read(path: Path, words: dict[str, int], grow: bool) -> Ids:
    """Return the sentences of a file for `probabilities`; new words are added to ``words`` if ``grow`` is set."""
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
