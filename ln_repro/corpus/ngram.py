"""Entropies of the target text without the source, from a unigram and an n-gram model."""

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ln_repro.system.files import Json

Ids = NDArray[np.integer[Any]]
BEGIN, END, UNKNOWN = range(3)
MAX_ORDER = 5
MAX_TOKENS = 10_000_000  # of training, including `BEGIN`; of larger training sets, the first sentences are used


def entropies(train: Path, valid: Path) -> Json:
    """Return the entropies of a segmented side under models that do not see the other side.

    Both are in bits per token, with the ends of sentences as tokens: ``unigram_bits``, of the frequencies of the
    ``tokens`` training tokens, and ``source_blind_bits``, the lowest validation cross-entropy of the n-gram models
    (`probabilities`), that of the model of order ``order``.
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
    is the uniform distribution. To save memory, only histories that occur in ``valid`` are counted.

    Args:
        train: concatenated sentences, each preceded by ``MAX_ORDER - 1`` times `BEGIN` and followed by `END`.
        valid: likewise; a token that is not in ``train`` is `UNKNOWN`.
        types: number of token types, including `END` and `UNKNOWN`.
    """
    scored = valid != BEGIN
    probability = np.full(np.count_nonzero(scored), 1 / types)
    places: Ids = np.arange(len(train), dtype=np.int32)
    history: Ids = np.zeros(len(train), np.int32)
    valid_history = np.zeros(len(valid), np.int32)
    for _ in range(MAX_ORDER):
        grams, valid_grams = _grams(history, train[places], types), _grams(valid_history, valid, types)
        seen, numbers = np.unique(grams[train[places] != BEGIN], return_counts=True)
        histories = seen // (types + 1)
        wanted = valid_history[scored]
        types_after = np.bincount(histories, minlength=len(valid))[wanted]
        tokens_after = np.bincount(histories, numbers, minlength=len(valid))[wanted]
        index, known = _find(valid_grams[scored], seen)
        counts = np.where(known, numbers[index], 0)
        smoothed = (counts + types_after * probability) / np.maximum(tokens_after + types_after, 1)
        probability = np.where(tokens_after > 0, smoothed, probability)
        yield probability
        of_valid, inverse = np.unique(valid_grams, return_inverse=True)
        index, known = _find(grams, of_valid)
        known &= train[places] != END  # which begins no history
        places, history = places[known] + 1, index[known]
        valid_history[1:] = inverse[:-1]


def _grams(history: Ids, tokens: Ids, types: int) -> Ids:
    """Return a number for each history, also given as a number, and the token after it."""
    return history.astype(np.int64) * (types + 1) + tokens


def _find(values: Ids, ordered: Ids) -> tuple[Ids, NDArray[np.bool_]]:
    """Return the index of each value in an ordered array, and whether it is there."""
    index = np.searchsorted(ordered, values).astype(np.int32)
    index[index == len(ordered)] = 0
    return index, ordered[index] == values


def _read(path: Path, words: dict[str, int], grow: bool) -> Ids:
    """Return the sentences of a file as `probabilities` expects them; ``grow`` adds new words to ``words``."""
    tokens = array("i")
    number = words.setdefault if grow else words.get
    with path.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            tokens.extend([BEGIN] * (MAX_ORDER - 1))
            tokens.extend(number(word, len(words) + UNKNOWN + 1 if grow else UNKNOWN) for word in line.split())
            tokens.append(END)
            if len(tokens) >= MAX_TOKENS:
                break
    return np.frombuffer(tokens, dtype=np.int32)
