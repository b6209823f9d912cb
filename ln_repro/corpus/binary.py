"""fairseq's dictionary and its memory-mapped binary format, with the bytes that ``fairseq-preprocess`` writes."""

import struct
from array import array
from collections import Counter
from collections.abc import Mapping
from itertools import count, islice
from pathlib import Path

import numpy as np

SPECIAL = 4  # tokens before those of the dictionary: <s>, <pad>, </s>, <unk>
END, UNKNOWN = 2, 3
MULTIPLE = 8  # to which the size of the dictionary, with special tokens, is padded
HEADER = struct.Struct("<9sQBQ")  # of an index: MAGIC, version, code of the type, number of sentences
MAGIC = b"MMIDIDX\0\0"


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
