"""The work on the shards of a corpus, in one or several processes: tokenise, count words, segment and encode."""

import pickle
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ln_repro.corpus.base import Corpus, Found
from ln_repro.corpus.binary import Sentences, encode, token_ids
from ln_repro.corpus.bpe import segmenter
from ln_repro.corpus.text import LONGEST_WORD, Pair, lower
from ln_repro.corpus.tokenise import detokenise, tokeniser
from ln_repro.errors import UserError
from ln_repro.experiment.data import Data
from ln_repro.system.files import write_atomically

SIZE = 10_000
"""Number of pairs in a shard."""
Columns = list[list[str]]
"""The lines of every side."""
Numbers = Counter[tuple[str, ...]]
"""Counts of pairs, by ("pairs", split) and ("left out",), of tokens, by ("text" or "bpe", split, side), and of each
subword in the training set, by ("subword", side, subword)."""


@dataclass(frozen=True)
class Shard:
    """Consecutive pairs of a split from `Corpus.read`, and the preparation that they belong to."""

    corpus: Corpus
    data: Data
    found: Found
    folder: Path  # of intermediate files, which are kept if the preparation is interrupted
    split: str
    first: int  # the number of pairs before them
    size: int  # the number of pairs
    pairs: tuple[Pair, ...] = ()  # the raw pairs; empty if they are tokenised already
    routes: tuple[str | None, ...] | None = None  # the split of each, None to leave it out; None if all remain

    @property
    def sides(self) -> tuple[str, ...]:
        return tuple(self.corpus.sides(self.data))

    def path(self, step: str) -> Path:
        """Return the file with the result of a step."""
        return self.folder / f"{self.split}-{self.first:012d}.{step}"

    def tokenised(self) -> tuple[Columns, Columns]:
        """Return the raw lines and the tokenised ones."""
        raw, text = pickle.loads(self.path("text").read_bytes())
        return raw, text

    def cased(self, text: Columns) -> Columns:
        """Return the lines in lower case, if the settings say so."""
        return [[lower(line) for line in lines] for lines in text] if self.data.lowercase else text

    def routed(self) -> Iterator[tuple[int, str]]:
        """Yield index and prepared split of each pair that is not left out."""
        for index, split in enumerate(self.routes or (self.split,) * self.size):
            if split is not None:
                yield index, split


def tokenise(shard: Shard) -> None:
    """Tokenise a shard, unless that is done already; raise `UserError` like `segment`, as far as it is known here.

    Text that is segmented already is only joined to words, and detokenised where the untokenised lines are needed.

    Raises:
        UserError: also if segmented text is not what the merges make of its words.
    """
    if shard.path("text").exists():
        return
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
    write_atomically(shard.path("text"), pickle.dumps((raw, text)))


def _joined(shard: Shard, segmented: Columns) -> Columns:
    """Return the words of segmented lines, which must be those that the merges make of these words."""
    split_up = segmenter((shard.folder / "codes").read_text(encoding="utf-8"))
    text = [[line.replace("@@ ", "") for line in lines] for lines in segmented]
    for side, (lines, wanted) in enumerate(zip(shard.cased(text), segmented, strict=True)):
        for index, (line, given) in enumerate(zip(lines, wanted, strict=True)):
            if split_up(line) != given:
                raise UserError(
                    f"{_place(shard, index, side)}: the line {given[:80]!r} is not in lower-case BPE by the merges of "
                    f"{shard.found['code'].name}, which make {split_up(line)[:80]!r} of it; {shard.corpus.by_hand}"
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
        if side in (shard.data.source_lang, shard.data.target_lang):
            for index in train:
                words.update(lines[index].split(" "))
    for word in ["", *(word for word in words if len(word) > LONGEST_WORD)]:
        del words[word]
    return words


def segment(shard: Shard) -> tuple[Numbers, list[int]]:
    """Segment and clean a shard, unless that is done already.

    Returns:
        The counts of the shard, and the positions (from 1) of the training pairs that were left out.

    Raises:
        UserError: a line of a validation or test set has no text or is too long.
    """
    path = shard.path("done")
    if path.exists():
        found, left_out, _ = pickle.loads(path.read_bytes())
        return found, left_out
    raw, text = shard.tokenised()
    text = shard.cased(text)
    bpe = text
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
    lines: dict[tuple[str, ...], list[str]] = {
        (kind, split, side): [column[index] for index in chosen]
        for split, chosen in rows.items()
        for kind, columns in (("raw", raw), ("text", text), ("bpe", bpe))
        if not (kind == "raw" and split == "train") and not (kind == "bpe" and shard.data.only)
        for side, column in zip(shard.sides, columns, strict=True)
    }
    numbers: Numbers = Counter({("left out",): len(left_out)})
    numbers.update({("pairs", split): len(chosen) for split, chosen in rows.items()})
    for key, part in lines.items():
        numbers[key] = sum(line.count(" ") + 1 for line in part)
        if key[:2] == ("bpe", "train"):
            numbers.update(("subword", key[2], token) for line in part for token in line.split())
    write_atomically(path, pickle.dumps((numbers, left_out, lines)))
    return numbers, left_out


def _misfit(shard: Shard, index: int, side: int, raw: Columns, pair: Pair) -> str:
    """Return the message for a line without text or with too many subwords."""
    length = len(pair[side].split())
    found = f"{length} subwords, more than {shard.corpus.longest}" if length else "no printable text"
    one = "sentence pair" if len(pair) > 1 else "sentence"
    return f"{_place(shard, index, side)}: the line {raw[side][index][:80]!r} has {found}; remove the {one}"


def _place(shard: Shard, index: int, side: int) -> str:
    """Return file and number of a line, as far as they are known, for messages."""
    name = f"{shard.split}.{shard.sides[side]}"
    place = f"{shard.found.get(name, f'{shard.corpus.name}: {name}')}"
    return place + f":{shard.first + index + 1}" * shard.corpus.numbered


def output(shard: Shard) -> tuple[dict[str, bytes], dict[tuple[str, str], Sentences]]:
    """Return what a segmented shard adds to the text files, by name, and to the binary ones, by split and side."""
    *_, lines = pickle.loads(shard.path("done").read_bytes())
    ids = token_ids((shard.folder / "dictionary").read_text(encoding="utf-8"))
    binary = {
        (split, side): encode(part, ids)
        for (kind, split, side), part in lines.items()
        if kind == "bpe" and side in (shard.data.source_lang, shard.data.target_lang)
    }
    text = {f"{kind}/{split}.{side}": "\n".join([*part, ""]).encode() for (kind, split, side), part in lines.items()}
    return text, binary
