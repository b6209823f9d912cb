"""German-English sentence pairs from Tatoeba, as published by manythings.org."""

import hashlib
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from ln_repro.corpus.base import Corpus, Raw, RawFiles, Splits
from ln_repro.corpus.text import DAMAGE, Pair, decoded, lower
from ln_repro.errors import UserError
from ln_repro.experiment.data import Data

ARCHIVE, MEMBER = "deu-eng.zip", "deu.txt"
SHA256 = "b7688f84f99fa33c17397c14d8bd9cef1fdeb2ee0bf50074767023aee8926e28"
SHARE = 2_500 / 135_534  # share of the English sentences in each of valid and test: about 2,500 of the published file


class Tatoeba(Corpus):
    """Tatoeba, split by English sentence, because many sentences have several translations.

    The split of an English sentence depends only on its hash, so that it is the same in later versions of the file.
    """

    name = "tatoeba"
    renewed = True
    description = "Tatoeba sentence pairs, split by English sentence"
    origin = "www.manythings.org/anki/deu-eng.zip, from tatoeba.org"
    licence = "CC BY 2.0 (France)"
    by_hand = (
        "get deu-eng.zip from https://www.manythings.org/anki/ and give data.source=PATH "
        "(the site updates the file; a newer one needs data.checksum=record)"
    )
    dropped = "with a side that is in valid or test"
    pairs: ClassVar[Mapping[str, int]] = {"train": 162_947, "valid": 2_477, "test": 2_451}

    def inputs(self, data: Data) -> list[Raw]:
        return [Raw(ARCHIVE, f"sha256:{SHA256}", (f"https://www.manythings.org/anki/{ARCHIVE}",))]

    def read(self, data: Data, files: RawFiles) -> Splits:
        """Return all pairs as one split; `assign` splits them by their words."""
        return {"train": _read(files[ARCHIVE]), "valid": (), "test": ()}

    def assign(self, pairs: Callable[[], Iterator[Pair]]) -> Iterator[str | None]:
        """Split by English sentence, and drop training pairs whose German side is in valid or test.

        Of each English sentence in valid and test, one pair is chosen by a hash of its German side.
        """
        best: dict[str, tuple[int, str, int]] = {}
        for number, (german, english) in enumerate(_lower(pairs())):
            if _split_of(english) != "train":
                choice = (_hash(german), german, number)
                best[english] = min(best.get(english, choice), choice)
        chosen = {number for _, _, number in best.values()}
        held_out = {german for _, german, _ in best.values()}
        for number, (german, english) in enumerate(_lower(pairs())):
            split = _split_of(english)
            remains = german not in held_out if split == "train" else number in chosen
            yield split if remains else None


def _lower(pairs: Iterator[Pair]) -> Iterator[Pair]:
    return (tuple(map(lower, pair)) for pair in pairs)


def _split_of(english: str) -> str:
    place = _hash(english) / 2**64
    if place < SHARE:
        return "test"
    return "valid" if place < 2 * SHARE else "train"


def _hash(text: str) -> int:
    """Return a hash of 64 bits."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def _read(path: Path) -> Iterator[Pair]:
    """Yield the pairs of the archive, without the attribution in the other columns."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(MEMBER) as file:
            for number, line in enumerate(decoded(path / MEMBER, file), 1):
                english, german, *_ = (*line.split("\t"), "", "")
                if line and not (english.strip() and german.strip()):
                    raise UserError(f"{path / MEMBER}:{number}: expected ENGLISH, a tab and GERMAN; {Tatoeba.by_hand}")
                if line:
                    yield german.strip(), english.strip()
    except (KeyError, *DAMAGE) as error:
        raise UserError(f"{path}: not a zip archive with {MEMBER}, or damaged ({error}); {Tatoeba.by_hand}") from None
