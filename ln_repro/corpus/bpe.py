"""Joint byte-pair encoding (Sennrich et al. 2016) with subword-nmt."""

import contextlib
import io
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import lru_cache
from heapq import heappop, heappush

from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from ln_repro.corpus.text import LONGEST_WORD

CACHED_WORDS = 100_000
"""Number of words whose segmentation is kept in memory."""
Pair = tuple[str, str]


def learn(counts: Mapping[str, int], merges: int) -> str:
    """Learn at most ``merges`` merges from the number of each word; return the table, or "" if there are none.

    It takes 1.3 kB of memory per distinct word: 0.4 GB for 300,000 of them.
    """
    table, words = io.StringIO(), [f"{word} {count}" for word, count in counts.items()]
    possible = sum(len(word) - 1 for word in counts)
    if not possible:
        return ""
    with contextlib.redirect_stderr(io.StringIO()):  # its progress bar
        learn_bpe(words, table, min(merges, possible), is_dict=True)
    return table.getvalue() if table.getvalue().count("\n") > 1 else ""


@lru_cache(1)
def segmenter(codes: str) -> Callable[[str], str]:
    """Return a function that segments the words of a line, with ``@@`` after every subword except the last."""
    table = BPE(io.StringIO(codes))

    def segment(line: str) -> str:
        if len(table.cache) > CACHED_WORDS:
            table.cache.clear()
        if len(line) > LONGEST_WORD:
            long = (word for word in line.split(" ") if len(word) > LONGEST_WORD)
            table.cache.update({word: _subwords(word, table.bpe_codes) for word in long})
        return str(table.process_line(line))

    return segment


def _subwords(word: str, ranks: Mapping[Pair, int]) -> tuple[str, ...]:
    """Return the subwords of a word as subword-nmt does, but without passing over the whole word for every merge.

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
    *subwords, last = filter(None, symbols)
    return *subwords, last.removesuffix("</w>")
