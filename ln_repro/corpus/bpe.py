"""Joint byte-pair encoding (Sennrich et al. 2016) with subword-nmt, in bounded memory."""

import io
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import prune_stats, replace_pair, update_pair_statistics

from ln_repro.corpus.text import LONGEST_WORD

CACHED_WORDS = 100_000
"""Number of words whose segmentation is kept in memory."""
REPLACED = 10_000
"""Number of words in which a pair is merged at once; subword-nmt keeps the old and the new symbols of all of them."""
Symbols = tuple[str, ...]
Pair = tuple[str, str]


class _Words:
    """The word types and their frequencies as the list of ``(symbols, frequency)`` of subword-nmt, in less memory."""

    def __init__(self, counts: "Counter[str]") -> None:
        self.words: list[str] = []
        self.frequencies = array("q")
        while counts:  # the memory of the words is released
            word, frequency = counts.popitem()
            self.words.append(" ".join(word) + "</w>")
            self.frequencies.append(frequency)
        counts.clear()  # and that of the empty table

    def __getitem__(self, index: int) -> tuple[Symbols, int]:
        return tuple(self.words[index].split(" ")), self.frequencies[index]

    def __setitem__(self, index: int, entry: tuple[Symbols, int]) -> None:
        self.words[index] = " ".join(entry[0])

    def pairs(self) -> Iterator[tuple[int, Pair]]:
        """Yield the number of a word with each of its pairs of symbols."""
        for index, word in enumerate(self.words):
            for pair in pairwise(word.split(" ")):
                yield index, pair

    def places(self, pairs: Container[Pair]) -> "defaultdict[Pair, _Places]":
        """Return the words that contain each of the pairs."""
        found: defaultdict[Pair, _Places] = defaultdict(_Places)
        for index, pair in self.pairs():
            if pair in pairs:
                found[pair].words.append(index)
        return found

    def having(self, pair: Pair, candidates: Sequence[int]) -> list[int]:
        """Return those of the words that contain a pair."""
        symbols = f" {pair[0]} {pair[1]} "
        return [index for index in candidates if symbols in f" {self.words[index]} "]


class _Places:
    """The words that a pair of symbols was added to, as subword-nmt's ``{word: number of times}``.

    Words that have lost the pair since are recognised later, which takes less memory than removing them.
    """

    __slots__ = ("words",)

    def __init__(self) -> None:
        self.words = array("i")

    def __getitem__(self, word: int) -> int:
        return 0

    def __setitem__(self, word: int, change: int) -> None:
        if change > 0:
            self.words.append(word)


def learn(counts: "Counter[str]", merges: int) -> str:
    """Learn at most ``merges`` merges from ``counts``, which are emptied; return the table, or "" if there are none.

    The result is that of ``subword_nmt.learn_bpe.learn_bpe``, whose loop this is, in less memory: words are only known
    for pairs that are frequent enough to be merged soon, and are searched again when less frequent ones are needed.
    """
    words = _Words(counts)
    pairs: dict[Pair, int] = defaultdict(int)
    for index, pair in words.pairs():
        pairs[pair] += words.frequencies[index]
    every, places, table = pairs.copy(), words.places(pairs), ["#version: 0.2"]
    threshold = max(pairs.values(), default=0) / 10
    for number in range(merges):
        most = max(pairs.values(), default=0)
        if not pairs or (number and most < threshold):  # the best pair may have been pruned
            prune_stats(pairs, every, threshold)
            most = max(every.values(), default=0)
            threshold = most * number / (number + 10_000)
            pairs = defaultdict(int, {pair: count for pair, count in every.items() if count >= threshold})
            places = words.places(pairs)
        if most < 2:
            break
        best = max(pair for pair, frequency in pairs.items() if frequency == most)
        table.append(" ".join(best))
        candidates = np.unique(places[best].words)
        for first in range(0, len(candidates), REPLACED):
            found = dict.fromkeys(words.having(best, candidates[first : first + REPLACED].tolist()), 1)
            update_pair_statistics(best, replace_pair(best, words, {best: found}), pairs, places)
        pairs[best], places[best] = 0, _Places()
        if number % 100 == 0:
            before = [*pairs]
            prune_stats(pairs, every, threshold)
            for pair in before:
                if pair not in pairs:  # as no pair becomes more frequent, it is not merged before it is searched again
                    places.pop(pair, None)
    return "".join(f"{line}\n" for line in table) if len(table) > 1 else ""


@lru_cache(1)
def segmenter(codes: str) -> Callable[[str], str]:
    """Return a function that segments the words of a line, with ``@@`` after every subword except the last."""
    table = BPE(io.StringIO(codes))
    cache: dict[str, str] = {}

    def segment(line: str) -> str:
        pieces = []
        for word in line.split(" "):
            if word and word not in cache:
                if len(cache) >= CACHED_WORDS:
                    cache.clear()
                    table.cache.clear()
                cache[word] = table.segment(word) if len(word) <= LONGEST_WORD else _split(word, table.bpe_codes)
            if word:
                pieces.append(cache[word])
        # subword-nmt keeps white space around a line, as a line that ends with a non-breaking space has once tokenised.
        start, end = len(line) - len(line.lstrip(" ")), len(line.rstrip(" "))
        return line[:start] + " ".join(pieces) + line[max(start, end) :]

    return segment


def _split(word: str, ranks: Mapping[Pair, int]) -> str:
    """Segment a word as subword-nmt does, but without passing over the whole word for every merge.

    ``ranks`` are the positions of the merges in the table.
    """
    symbols = [*word[:-1], f"{word[-1]}</w>", ""]  # with an end, which is part of no pair
    following, preceding = [*range(1, len(symbols) + 1)], [*range(-1, len(symbols) - 1)]
    places: defaultdict[Pair, list[int]] = defaultdict(list)
    queue: list[tuple[int, Pair]] = []

    def add(index: int) -> None:
        pair = symbols[index], symbols[following[index]]
        if pair in ranks:
            if pair not in places:
                heappush(queue, (ranks[pair], pair))
            places[pair].append(index)

    for index in range(len(symbols) - 1):
        add(index)
    while queue:
        _, pair = heappop(queue)
        for index in sorted(places.pop(pair)):
            second = following[index]
            if (symbols[index], symbols[second]) == pair:  # otherwise, one of the two has been merged since
                symbols[index], symbols[second] = "".join(pair), ""
                following[index] = following[second]
                preceding[following[index]] = index
                add(index)
                if index:
                    add(preceding[index])
    return "@@ ".join(filter(None, symbols)).removesuffix("</w>")
