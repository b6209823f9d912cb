"""Joint byte-pair encoding (Sennrich et al. 2016) with subword-nmt, in bounded memory."""

import io
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise

from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import prune_stats, replace_pair, update_pair_statistics

CACHED_WORDS = 100_000
"""Number of words whose segmentation is kept in memory."""
Symbols = tuple[str, ...]


class _Words:
    """The word types and their frequencies as the list of ``(symbols, frequency)`` of subword-nmt, in less memory."""

    def __init__(self, counts: "Counter[str]") -> None:
        self.words: list[str] = []
        self.frequencies = array("q")
        while counts:  # the memory of the counter is released
            word, frequency = counts.popitem()
            self.words.append(" ".join(word) + "</w>")
            self.frequencies.append(frequency)

    def __getitem__(self, index: int) -> tuple[Symbols, int]:
        return tuple(self.words[index].split(" ")), self.frequencies[index]

    def __setitem__(self, index: int, entry: tuple[Symbols, int]) -> None:
        self.words[index] = " ".join(entry[0])


class _Occurrences:
    """The words with a pair of symbols, as subword-nmt's ``{word: number of times}``.

    The increments and decrements by one are stored as the word ``n`` and as ``~n``, and are summed when needed.
    """

    __slots__ = ("changes",)

    def __init__(self) -> None:
        self.changes = array("i")

    def __getitem__(self, word: int) -> int:
        return 0

    def __setitem__(self, word: int, change: int) -> None:
        self.changes.append(word if change > 0 else ~word)

    def items(self) -> Iterator[tuple[int, int]]:
        numbers = Counter(self.changes)
        return ((word, number - numbers[~word]) for word, number in list(numbers.items()) if word >= 0)


def learn(counts: "Counter[str]", merges: int) -> str:
    """Learn merges from the numbers of words and return the merge table; it is empty if there is nothing to merge.

    The result is that of ``subword_nmt.learn_bpe.learn_bpe``, whose loop this is, with smaller data structures.

    Args:
        counts: emptied.
        merges: maximum number of merges.
    """
    words = _Words(counts)
    pairs: dict[tuple[str, str], int] = defaultdict(int)
    places: dict[tuple[str, str], _Occurrences] = defaultdict(_Occurrences)
    for index, frequency in enumerate(words.frequencies):
        symbols = words[index][0]
        for pair in pairwise(symbols):
            pairs[pair] += frequency
            places[pair].changes.append(index)
    every, table = pairs.copy(), ["#version: 0.2"]
    threshold = max(pairs.values(), default=0) / 10
    for number in range(merges):
        most = max(pairs.values(), default=0)
        if not pairs or (number and most < threshold):  # the best pair may have been pruned
            prune_stats(pairs, every, threshold)
            pairs = every.copy()
            most = max(pairs.values(), default=0)
            threshold = most * number / (number + 10_000)
            prune_stats(pairs, every, threshold)
        if most < 2:
            break
        best = max(pair for pair, frequency in pairs.items() if frequency == most)
        table.append(" ".join(best))
        update_pair_statistics(best, replace_pair(best, words, places), pairs, places)
        pairs[best] = 0
        if number % 100 == 0:
            prune_stats(pairs, every, threshold)
    return "".join(f"{line}\n" for line in table) if len(table) > 1 else ""


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
                cache[word] = table.segment(word)
            if word:
                pieces.append(cache[word])
        # subword-nmt keeps white space around a line, as a line that ends with a non-breaking space has once tokenised.
        start, end = len(line) - len(line.lstrip(" ")), len(line.rstrip(" "))
        return line[:start] + " ".join(pieces) + line[max(start, end) :]

    return segment
