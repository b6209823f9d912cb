"""The work on one shard of a corpus: tokenise, count words, segment and encode; it is done in any process."""

import pickle
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ln_repro.corpus.base import Corpus, Found
from ln_repro.corpus.binary import encode, token_ids
from ln_repro.corpus.bpe import segmenter
from ln_repro.corpus.text import Pair, lower
from ln_repro.corpus.tokenise import tokeniser
from ln_repro.errors import UserError
from ln_repro.experiment.data import Data
from ln_repro.system.files import write_atomically

SIZE = 10_000
"""Number of pairs in a shard."""
LEARNT = ("codes", "dictionary")
"""Files in the folder of shards: the merge table and the dictionary."""
Columns = list[list[str]]
"""The lines of every side."""

cached_tokeniser = lru_cache(None)(tokeniser)


@dataclass(frozen=True)
class Shard:
    """Consecutive pairs of a split from `Corpus.read`, and the preparation that they belong to.

    Attributes:
        folder: of intermediate files, which are kept if the preparation is interrupted.
        split: their split.
        first: the number of pairs before them.
        pairs: the raw pairs; empty if they are tokenised already.
        routes: the split of each prepared pair, or None to leave it out; None if all remain in ``split``.
    """

    corpus: Corpus
    data: Data
    found: Found
    folder: Path
    split: str
    first: int
    pairs: tuple[Pair, ...] = ()
    routes: tuple[str | None, ...] | None = None

    def path(self, step: str) -> Path:
        """Return the file with the result of a step."""
        return self.folder / f"{self.split}-{self.first:012d}.{step}"

    def tokenised(self) -> tuple[Columns, Columns]:
        """Return the raw lines and the tokenised ones."""
        raw, text = pickle.loads(self.path("text").read_bytes())
        return raw, text

    def routed(self, count: int) -> Iterator[tuple[int, str]]:
        """Yield index and prepared split of each of the ``count`` pairs that is not left out."""
        for index, split in enumerate(self.routes or (self.split,) * count):
            if split is not None:
                yield index, split

    def lower(self, text: Columns) -> Columns:
        """Return the lines in lower case, if the settings say so."""
        return [[lower(line) for line in lines] for lines in text] if self.data.lowercase else text

    def place(self, side: str, index: int) -> str:
        """Return where a pair was read, for messages."""
        name = f"{self.split}.{side}"
        path = self.found.get(name, f"{self.corpus.name}: {name}")
        return f"{path}:{self.first + index + 1}" if self.corpus.numbered else str(path)


@dataclass
class Summary:
    """What `segment` found in a shard.

    Attributes:
        pairs: number of pairs by split.
        words: number of words by split and side.
        tokens: number of subwords by split and side.
        types: frequencies of the subwords of the training set, by side.
        left_out: numbers of the training pairs that were left out, from 1.
    """

    pairs: "Counter[str]" = field(default_factory=Counter)
    words: "Counter[tuple[str, str]]" = field(default_factory=Counter)
    tokens: "Counter[tuple[str, str]]" = field(default_factory=Counter)
    types: dict[str, "Counter[str]"] = field(default_factory=dict)
    left_out: list[int] = field(default_factory=list)


def tokenise(shard: Shard) -> int:
    """Tokenise a shard, unless that is done already; return its number of pairs."""
    if not shard.path("text").exists():
        sides, style = shard.corpus.sides(shard.data), shard.corpus.style(shard.split)
        raw: Columns = [list(lines) for lines in zip(*shard.pairs, strict=True)]
        text = [
            [cached_tokeniser(shard.corpus.language(side), style)(line) for line in lines]
            for side, lines in zip(sides, raw, strict=True)
        ]
        write_atomically(shard.path("text"), pickle.dumps((raw, text)))
    return len(shard.pairs)


def count_words(shard: Shard) -> "Counter[str]":
    """Return the number of each word in the training pairs, of the source and target side."""
    _, text = shard.tokenised()
    words: Counter[str] = Counter()
    train = [index for index, split in shard.routed(len(text[0])) if split == "train"]
    for side, lines in zip(shard.corpus.sides(shard.data), shard.lower(text), strict=True):
        if side in (shard.data.source_lang, shard.data.target_lang):
            for index in train:
                words.update(lines[index].split(" "))
    del words[""]
    return words


def segment(shard: Shard) -> Summary:
    """Segment and clean a shard, unless that is done already; return what was found.

    Raises:
        UserError: a line of a validation or test set has no text or is too long.
    """
    path = shard.path("done")
    if path.exists():
        summary: Summary = pickle.loads(path.read_bytes())[0]
        return summary
    raw, text = shard.tokenised()
    text = shard.lower(text)
    codes = shard.folder / "codes"
    bpe = [list(map(_segmenter(codes), lines)) for lines in text] if codes.exists() else text
    summary, rows = Summary(), dict[str, list[int]]()
    for index, split in shard.routed(len(text[0])):
        pair = tuple(lines[index] for lines in bpe)
        if split == "train" and not (_misfit(shard, pair) is None and shard.corpus.keep(pair)):
            summary.left_out.append(shard.first + index + 1)
            continue
        if split != "train" and (problem := _misfit(shard, pair)) is not None:
            side = shard.corpus.sides(shard.data)[problem]
            line, one = raw[problem][index], "sentence pair" if len(pair) > 1 else "sentence"
            found = (
                f"{pair[problem].count(' ') + 1} subwords, more than {shard.corpus.longest}"
                if pair[problem]
                else "no printable text"
            )
            raise UserError(f"{shard.place(side, index)}: the line {line[:80]!r} has {found}; remove the {one}")
        rows.setdefault(split, []).append(index)
    lines: dict[tuple[str, str, str], list[str]] = {}
    for split, chosen in rows.items():
        summary.pairs[split] = len(chosen)
        for number, side in enumerate(shard.corpus.sides(shard.data)):
            for kind, columns in (("raw", raw), ("text", text), ("bpe", bpe)):
                if not (kind == "raw" and split == "train") and not (kind == "bpe" and shard.data.only):
                    lines[kind, split, side] = [columns[number][index] for index in chosen]
            summary.words[split, side] = _tokens(lines["text", split, side])
            if not shard.data.only:
                summary.tokens[split, side] = _tokens(lines["bpe", split, side])
            if split == "train" and not shard.data.only:
                summary.types[side] = Counter(token for line in lines["bpe", split, side] for token in line.split())
    write_atomically(path, pickle.dumps((summary, lines)))
    return summary


def _misfit(shard: Shard, pair: Pair) -> int | None:
    """Return the number of a side that is empty or too long; None if there is none."""
    for number, line in enumerate(pair):
        if not line.strip() or (shard.corpus.longest is not None and line.count(" ") >= shard.corpus.longest):
            return number
    return None


def _tokens(lines: list[str]) -> int:
    """Return the number of tokens, without end marks."""
    return sum(line.count(" ") + 1 for line in lines)


@dataclass
class Output:
    """A part of the prepared files: text by name, and tokens and lengths by split and side."""

    text: dict[str, bytes]
    tokens: dict[tuple[str, str], tuple[bytes, NDArray[Any]]]


def output(shard: Shard) -> Output:
    """Return what a segmented shard adds to the prepared files."""
    _, lines = pickle.loads(shard.path("done").read_bytes())
    both = (shard.data.source_lang, shard.data.target_lang)
    return Output(
        {f"{kind}/{split}.{side}": "".join(f"{line}\n" for line in part).encode()
         for (kind, split, side), part in lines.items()},
        {(split, side): encode(part, _ids(shard.folder / "dictionary"))
         for (kind, split, side), part in lines.items() if kind == "bpe" and side in both},
    )  # fmt: skip


@lru_cache(1)
def _segmenter(codes: Path) -> Any:
    """Return the segmenter for a merge table."""
    return segmenter(codes.read_text(encoding="utf-8"))


@lru_cache(1)
def _ids(dictionary: Path) -> dict[str, int]:
    """Return the numbers of the tokens of a dictionary."""
    return token_ids(dictionary.read_text(encoding="utf-8"))
