"""Joint byte-pair encoding (Sennrich et al. 2016) with subword-nmt, and fairseq's dictionary and binary format.

Dictionary and binary files are those of ``fairseq-preprocess``, byte for byte.
"""

import contextlib
import io
import struct
from array import array
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import count, islice
from pathlib import Path

import numpy as np
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

CACHED_WORDS = 100_000  # number of words whose segmentation is kept in memory
LONGEST = 10_000
"""Maximum number of characters of a word that is segmented by merges; each merge passes over the whole word."""
SPECIAL = 4  # tokens before those of the dictionary: <s>, <pad>, </s>, <unk>
END, UNKNOWN = 2, 3
MULTIPLE = 8  # to which the size of the dictionary, with special tokens, is padded
HEADER = struct.Struct("<9sQBQ")  # of an index: MAGIC, version, code of the type, number of sentences
MAGIC = b"MMIDIDX\0\0"


def learn(counts: Mapping[str, int], merges: int) -> str:
    """Learn at most ``merges`` merges from the number of each word; return the table, or "" if there are none.

    It takes 1.3 kB of memory per distinct word: 0.4 GB for 300,000 of them.
    """
    table, words = io.StringIO(), [f"{word} {number}" for word, number in counts.items()]
    possible = sum(len(word) - 1 for word in counts)
    if not possible:
        return ""
    with contextlib.redirect_stderr(io.StringIO()):  # its progress bar
        learn_bpe(words, table, min(merges, possible), is_dict=True)
    return table.getvalue() if table.getvalue().count("\n") > 1 else ""


@lru_cache(1)
def segmenter(codes: str) -> Callable[[str], str]:
    """Return a function that segments the words of a line, with ``@@`` after every subword except the last.

    Words longer than `LONGEST` are split into their characters.
    """
    table = BPE(io.StringIO(codes))

    def segment(line: str) -> str:
        if len(table.cache) > CACHED_WORDS:
            table.cache.clear()
        if len(line) > LONGEST:
            table.cache.update({word: tuple(word) for word in line.split(" ") if len(word) > LONGEST})
        return str(table.process_line(line))

    return segment


def dictionary(counts: Counter[str]) -> str:
    """Return the text of a dictionary: tokens and their counts, the most frequent first, ties by code point.

    Its padding has fairseq's names, except those that are tokens.
    """
    rows = [f"{token} {number}\n" for token, number in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    padding = (name for number in count() if (name := f"madeupword{number:04d}") not in counts)
    return "".join([*rows, *(f"{name} 0\n" for name in islice(padding, -(len(rows) + SPECIAL) % MULTIPLE))])


def token_ids(text: str) -> dict[str, int]:
    """Return the number of every token of a dictionary."""
    return {line.rpartition(" ")[0]: number for number, line in enumerate(text.splitlines(), SPECIAL)}


def binarise(text: Path, prefix: Path, ids: Mapping[str, int]) -> None:
    """Write ``<prefix>.bin`` and ``<prefix>.idx``: the tokens of a file of sentences, and where each one begins."""
    small = len(ids) + SPECIAL < 65_500  # as fairseq decides
    lengths = array("i")
    with text.open(encoding="utf-8", newline="\n") as lines, Path(f"{prefix}.bin").open("wb") as file:
        for line in lines:
            tokens = array("H" if small else "I", [ids.get(token, UNKNOWN) for token in line.split()] + [END])
            tokens.tofile(file)
            lengths.append(len(tokens))
    sizes = np.array(lengths, np.int32)
    positions = (2 if small else 4) * (np.cumsum(sizes, dtype=np.int64) - sizes)
    head = HEADER.pack(MAGIC, 1, 8 if small else 9, len(sizes))
    Path(f"{prefix}.idx").write_bytes(head + sizes.tobytes() + positions.tobytes())
