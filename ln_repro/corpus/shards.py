"""The work on the shards of a corpus, in one or several processes: tokenise, count words and segment."""

import pickle
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ln_repro.corpus.base import Corpus, RawFiles
from ln_repro.corpus.bpe import segmenter
from ln_repro.corpus.text import LONGEST_WORD, Pair, lower
from ln_repro.corpus.tokenise import detokenise, tokeniser
from ln_repro.errors import UserError
from ln_repro.experiment.data import Data

SIZE = 10_000
"""Number of pairs in a shard."""
Columns = list[list[str]]
"""The lines of every side."""


@dataclass(frozen=True)
class Shard:
    """Consecutive pairs of a split from `Corpus.read`, and the preparation that they belong to."""

    corpus: Corpus
    data: Data
    files: RawFiles
    folder: Path  # of the tokenised shards and of ``codes``, the merge table, which is absent without segmentation
    split: str
    first: int  # the number of pairs before them
    size: int  # the number of pairs
    pairs: tuple[Pair, ...] = ()  # the raw pairs; empty once they are tokenised
    routes: tuple[str | None, ...] | None = None  # the split of each, None to leave it out; None if all remain

    @property
    def sides(self) -> tuple[str, ...]:
        return tuple(self.corpus.sides(self.data))

    @property
    def path(self) -> Path:
        """Return the file of the tokenised shard."""
        return self.folder / f"{self.split}-{self.first}"

    def tokenised(self) -> tuple[Columns, Columns]:
        """Return the raw lines and the tokenised ones."""
        raw, text = pickle.loads(self.path.read_bytes())
        return raw, text

    def cased(self, text: Columns) -> Columns:
        """Return the lines in lower case, if the settings say so."""
        return [[lower(line) for line in lines] for lines in text] if self.data.lowercase else text

    def routed(self) -> Iterator[tuple[int, str]]:
        """Yield index and prepared split of each pair that is not left out."""
        for index, split in enumerate(self.routes or (self.split,) * self.size):
            if split is not None:
                yield index, split


class Segmented(NamedTuple):
    """The prepared text of a shard."""

    lines: dict[str, list[str]]  # by the name of their file
    pairs: Counter[str]  # number of pairs by split
    subwords: dict[str, Counter[str]]  # number of each subword in the training set, by side
    left_out: list[int]  # positions (from 1) of the training pairs that were left out


def tokenise(shard: Shard) -> None:
    """Tokenise a shard, or only join and, where needed, detokenise its words if it is segmented already.

    Raises:
        UserError: a line of a validation or test set has no text, or segmented text is not what the merges make of it.
    """
    style = shard.corpus.style(shard.split)
    raw = [list(lines) for lines in zip(*shard.pairs, strict=True)]
    languages = shard.corpus.sides(shard.data).values()
    if style.segmented:
        text = _joined(shard, raw)
        raw = raw if shard.split == "train" else list(map(detokenise, text, languages))
    else:
        text = [list(map(tokeniser(lang, style), lines)) for lang, lines in zip(languages, raw, strict=True)]
    for index, pair in enumerate(zip(*text, strict=True)):
        if shard.split != "train" and (empty := [side for side, line in enumerate(pair) if not line.split()]):
            raise UserError(_misfit(shard, index, empty[0], raw, pair))
    shard.path.write_bytes(pickle.dumps((raw, text)))


def _joined(shard: Shard, segmented: Columns) -> Columns:
    """Return the words of segmented lines, which must be those that the merges make of these words."""
    split_up = segmenter((shard.folder / "codes").read_text(encoding="utf-8"))
    text = [[line.replace("@@ ", "") for line in lines] for lines in segmented]
    for side, (lines, expected) in enumerate(zip(shard.cased(text), segmented, strict=True)):
        for index, (line, subwords) in enumerate(zip(lines, expected, strict=True)):
            if split_up(line) != subwords:
                raise UserError(
                    f"{_place(shard, index, side)}: the line {subwords[:80]!r} is not in lower-case BPE by the merges "
                    f"of {shard.files['code'].name}, which make {split_up(line)[:80]!r} of it; {shard.corpus.by_hand}"
                )
    return text


def count_words(shard: Shard) -> Counter[str]:
    """Return the number of each word in the training pairs, of the source and target side.

    Very long words are left out: learning merges from them could take hours, and their pairs rarely remain.
    """
    _, text = shard.tokenised()
    train = [index for index, split in shard.routed() if split == "train"]
    words: Counter[str] = Counter()
    for side, lines in zip(shard.sides, shard.cased(text), strict=True):
        if side in shard.data.languages:
            for index in train:
                words.update(lines[index].split(" "))
    for word in ["", *(word for word in words if len(word) > LONGEST_WORD)]:
        del words[word]
    return words


def segment(shard: Shard) -> Segmented:
    """Segment and clean a shard.

    Raises:
        UserError: a line of a validation or test set has no text or is too long.
    """
    raw, text = shard.tokenised()
    bpe = text = shard.cased(text)
    if (codes := shard.folder / "codes").exists():
        segmented = segmenter(codes.read_text(encoding="utf-8"))
        bpe = [list(map(segmented, lines)) for lines in text]
    rows: dict[str, list[int]] = {}
    left_out = []
    for index, split in shard.routed():
        pair = tuple(lines[index] for lines in bpe)
        misfits = [side for side, line in enumerate(pair) if not 0 < len(line.split()) <= shard.corpus.longest]
        if split != "train" and misfits:
            raise UserError(_misfit(shard, index, misfits[0], raw, pair))
        if misfits or (split == "train" and not shard.corpus.keep(pair)):
            left_out.append(shard.first + index + 1)
        else:
            rows.setdefault(split, []).append(index)
    lines = {
        f"{kind}/{split}.{side}": [column[index] for index in chosen]
        for split, chosen in rows.items()
        for kind, columns in (("raw", raw), ("text", text), ("bpe", bpe))
        if not (kind == "raw" and split == "train") and not (kind == "bpe" and shard.data.only)
        for side, column in zip(shard.sides, columns, strict=True)
    }
    subwords = {
        side: Counter(token for line in lines.get(f"bpe/train.{side}", ()) for token in line.split())
        for side in shard.data.languages
    }
    return Segmented(lines, Counter({split: len(chosen) for split, chosen in rows.items()}), subwords, left_out)


def _misfit(shard: Shard, index: int, side: int, raw: Columns, pair: Pair) -> str:
    """Return the message for a line without text or with too many subwords."""
    length = len(pair[side].split())
    problem = f"{length} subwords, more than {shard.corpus.longest}" if length else "no printable text"
    what = "sentence pair" if len(pair) > 1 else "sentence"
    return f"{_place(shard, index, side)}: the line {raw[side][index][:80]!r} has {problem}; remove the {what}"


def _place(shard: Shard, index: int, side: int) -> str:
    """Return file and number of a line, as far as they are known, for messages."""
    name = f"{shard.split}.{shard.sides[side]}"
    place = f"{shard.files.get(name, f'{shard.corpus.name}: {name}')}"
    return f"{place}:{shard.first + index + 1}" if shard.corpus.numbered else place
