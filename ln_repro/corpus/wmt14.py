"""WMT14 English to German: Europarl, Common Crawl and News Commentary, with newstest2013 and newstest2014."""

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from ln_repro.corpus.base import LANGUAGES, Corpus, Raw, RawFiles, Splits, Style, wanted
from ln_repro.corpus.text import SUFFIXES, Pair, find_text, parallel, read_lines, read_member, segments, well_matched
from ln_repro.experiment.data import Data

TESTS = {"valid": "newstest2013", "test": "newstest2014"}
RATIO, LONGEST = 1.5, 250
"""Limits of prepare-wmt14en2de.sh: ratio of the lengths, and length in subwords."""


def _archive(name: str, folder: str, sha256: str) -> Raw:
    return Raw(name, f"sha256:{sha256}", (f"https://{folder}/{name}",))


TRAIN = {  # shard of the training text: its archive; in alphabetical order, like a user's shards
    "commoncrawl.de-en": _archive(
        "training-parallel-commoncrawl.tgz", "www.statmt.org/wmt13",
        "c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
    ),
    "europarl-v7.de-en": _archive(
        "training-parallel-europarl-v7.tgz", "www.statmt.org/wmt13",
        "0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
    ),
    "news-commentary-v9.de-en": _archive(
        "training-parallel-nc-v9.tgz", "www.statmt.org/wmt14",
        "cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485",
    ),
}  # fmt: skip
NEWSTESTS = _archive(
    "dev.tgz", "data.statmt.org/wmt19/translation-task",
    "7a7deccf82ebb05ba508dba5eb21356492224e8f630ec4f992132b029b4b25e7",
)  # fmt: skip


class Wmt14(Corpus):
    """WMT14 from the published archives, or from plain training text in one or more shards provided by the user."""

    name = "wmt14"
    description = "WMT14 news, newstest2013 and newstest2014; a download of 1.7 GB"
    origin = "www.statmt.org/wmt14/translation-task.html"
    licence = "free for research"
    by_hand = (
        f"get {', '.join(raw.name for raw in [*TRAIN.values(), NEWSTESTS])} from statmt.org/wmt14, or newstest2013 and "
        "newstest2014 and the training text in files NAME.de and NAME.en (.gz or .xz), and give their folder as "
        "data.source=PATH"
    )
    pairs: ClassVar[Mapping[str, int]] = {"valid": 3_000, "test": 3_003}
    cleaning = (
        "with an empty side, more than 250 subwords or a ratio of lengths over 1.5 (of the published text, fairseq's "
        "script keeps about 3.96 of 4.5 million pairs)"
    )

    def inputs(self, data: Data) -> list[Raw]:
        """Return the archives, except where the user's folder has newstests or training text in plain files."""
        folder = data.source if data.source is not None and data.source.is_dir() else None
        inputs: list[Raw] = []
        for name in [TESTS[split] for split in wanted(data) if split in TESTS]:
            if folder and any(_side(folder, name, lang).is_file() for lang in LANGUAGES):
                inputs += _plain(folder, name)
            elif NEWSTESTS not in inputs:
                inputs.append(NEWSTESTS)
        if "train" in wanted(data):
            inputs += (_shards(folder) if folder else []) or TRAIN.values()
        return inputs

    def style(self, split: str) -> Style:
        """Return the style of fairseq's script, which normalises the training text but not the evaluation sets."""
        return Style(normalise=split == "train", aggressive=True, apostrophes=split != "train")

    def read(self, data: Data, files: RawFiles) -> Splits:
        """Return the splits, with the shards in alphabetical order."""
        splits = {split: _pairs(files, TESTS[split]) for split in wanted(data) if split in TESTS}
        if data.only:
            return splits
        plain = {name.removesuffix(".de") for name in files if name.endswith(".de")} - {*TESTS.values()}
        train = itertools.chain.from_iterable(_pairs(files, name) for name in sorted(plain) or TRAIN)
        return {**splits, "train": train}

    def keep(self, pair: Pair) -> bool:
        """Return whether fairseq's script keeps a pair; it cleans after segmentation."""
        return well_matched(pair, RATIO, LONGEST)


def _shards(folder: Path) -> list[Raw]:
    """Return both sides of the training shards: every ``NAME.de`` or ``NAME.en`` except newstests."""
    stems = set()
    for path in folder.iterdir():
        name = path.name.removesuffix(path.suffix) if path.suffix in SUFFIXES[1:] else path.name
        stem, _, lang = name.rpartition(".")
        if lang in LANGUAGES and stem and not stem.startswith("newstest") and path.is_file():
            stems.add(stem)
    return [raw for stem in sorted(stems) for raw in _plain(folder, stem)]


def _names(name: str, lang: str) -> list[str]:
    """Return the names that one side of a shard or a newstest may have, in plain text or as SGML."""
    return [f"{name}.{lang}", *(f"{name}{pair}-{role}.{lang}.sgm" for pair in ("-deen", "") for role in ("src", "ref"))]


def _plain(folder: Path, name: str) -> list[Raw]:
    """Return both sides of a shard or a newstest."""
    return [Raw(f"{name}.{lang}", path=_side(folder, name, lang)) for lang in LANGUAGES]


def _side(folder: Path, name: str, lang: str) -> Path:
    """Return one side of a shard or a newstest, in plain text or as SGML; the plain name if it does not exist."""
    plain, *sgm = (folder / file for file in _names(name, lang))
    return next((path for path in (find_text(plain), *sgm) if path.is_file()), plain)


def _pairs(files: RawFiles, name: str) -> Iterator[Pair]:
    """Return the pairs of a shard or a newstest, from its files or from its archive."""
    if f"{name}.de" in files:
        paths = [files[f"{name}.{lang}"] for lang in LANGUAGES]
        sides = [read_lines(path) for path in paths]
    else:
        archive = files[TRAIN.get(name, NEWSTESTS).name]
        paths = [archive / f"{name}.{lang}" for lang in LANGUAGES]
        sides = [read_member(archive, _names(name, lang)) for lang in LANGUAGES]
    if name in TESTS.values():
        plain = [list(side) for side in sides]
        return parallel(paths, [segments(lines) or lines for lines in plain])
    return parallel(paths, sides)
