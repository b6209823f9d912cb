"""fairseq's dictionary and its memory-mapped binary format, with the bytes that ``fairseq-preprocess`` writes."""

import struct
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, count, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SPECIAL = 4
"""Number of tokens before those of the dictionary: <s>, <pad>, </s>, <unk>."""
END, UNKNOWN = 2, 3
MULTIPLE = 8
"""The dictionary, with special tokens, is padded to a multiple of this size."""
HEADER = struct.Struct("<9sQBQ")
"""Of an index: magic bytes, version, code of the type, number of sentences; then come lengths and positions."""
MAGIC = b"MMIDIDX\0\0"
Sentences = tuple[bytes, NDArray[np.int32]]
"""The tokens of all sentences, each sentence followed by ``</s>``, and the sentence lengths."""


def dictionary(counts: Counter[str]) -> str:
    """Return the text of a dictionary: tokens and their counts, the most frequent first, ties by code point.

    Its padding has fairseq's names, except those that are tokens.
    """
    rows = [f"{token} {number}\n" for token, number in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    padding = (name for number in count() if (name := f"madeupword{number:04d}") not in counts)
    return "".join([*rows, *(f"{name} 0\n" for name in islice(padding, -(len(rows) + SPECIAL) % MULTIPLE))])


@lru_cache(1)
def token_ids(text: str) -> dict[str, int]:
    """Return the number of every token of a dictionary."""
    return {line.rpartition(" ")[0]: number for number, line in enumerate(text.splitlines(), SPECIAL)}


def dtype(types: int) -> type[np.uint16 | np.uint32]:
    """Return the type that fairseq chooses for this number of types, with special tokens."""
    return np.uint16 if types < 65_500 else np.uint32


def encode(lines: Sequence[str], ids: dict[str, int]) -> Sentences:
    """Return lines in binary form."""
    sentences = [[ids.get(token, UNKNOWN) for token in line.split()] + [END] for line in lines]
    tokens = np.array(list(chain.from_iterable(sentences)), dtype(len(ids) + SPECIAL))
    return tokens.tobytes(), np.array(list(map(len, sentences)), np.int32)


class Writer:
    """The files ``<prefix>.bin`` and ``<prefix>.idx`` of one side of a split, written incrementally.

    The total number of ``sentences`` is known in advance; ``types`` is the size of the dictionary with special tokens.
    """

    def __init__(self, prefix: Path, sentences: int, types: int) -> None:
        self.prefix, self.sentences, self.width = prefix, sentences, dtype(types)().itemsize
        self.written = self.position = 0
        code = 8 if self.width == 2 else 9
        Path(f"{prefix}.idx").write_bytes(HEADER.pack(MAGIC, 1, code, sentences))

    def write(self, tokens: bytes, lengths: NDArray[np.int32]) -> None:
        """Append `Sentences`."""
        positions = self.position + self.width * (np.cumsum(lengths, dtype=np.int64) - lengths)
        with Path(f"{self.prefix}.bin").open("ab") as data, Path(f"{self.prefix}.idx").open("r+b") as index:
            data.write(tokens)
            index.seek(HEADER.size + 4 * self.written)
            index.write(lengths.tobytes())
            index.seek(HEADER.size + 4 * self.sentences + 8 * self.written)
            index.write(positions.tobytes())
        self.written += len(lengths)
        self.position += len(tokens)
