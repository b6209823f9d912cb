"""WMT14 English to German: Europarl, Common Crawl and News Commentary, with newstest2013 and newstest2014."""

import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from ln_repro.corpus.base import LANGUAGES, Corpus, Raw, RawFiles, Splits, Style
from ln_repro.corpus.text import Pair, find_text, parallel, read_member, read_pairs, segments, well_matched
from ln_repro.experiment.data import Data

TESTS = {"valid": "newstest2013", "test": "newstest2014"}
RATIO, LONGEST = 1.5, 250  # limits of prepare-wmt14en2de.sh: ratio of the lengths, and length in subwords


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
    "dev.tgz",
    "data.statmt.org/wmt19/translation-task",
    "7a7deccf82ebb05ba508dba5eb21356492224e8f630ec4f992132b029b4b25e7",
)


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
    cleaned = (
        "with an empty side, more than 250 subwords or a ratio of lengths over 1.5 (of the published text, fairseq's "
        "script keeps about 3.96 of 4.5 million pairs)"
    )

    def inputs(self, data: Data) -> list[Raw]:
        """Return the user's plain files of each split or, where there are none, the archives."""
        folder = data.source if data.source and data.source.is_dir() else None
        inputs: list[Raw] = []
        for split, archives in (("valid", [NEWSTESTS]), ("test", [NEWSTESTS]), ("train", TRAIN.values())):
            if split in data.splits:
                inputs += (_plain(folder, split) if folder else []) or archives
        return list(dict.fromkeys(inputs))

    def style(self, split: str) -> Style:
        """Return the style of fairseq's script, which normalises the training text but not the evaluation sets."""
        return Style(normalise=split == "train", aggressive=True, apostrophes=split != "train")

    def read(self, data: Data, files: RawFiles) -> Splits:
        """Return the splits, with the shards in alphabetical order."""
        splits = {split: _pairs(files, TESTS[split]) for split in data.splits if split in TESTS}
        if data.only:
            return splits
        plain = {name.removesuffix(".de") for name in files if name.endswith(".de")} - {*TESTS.values()}
        train = itertools.chain.from_iterable(_pairs(files, name) for name in sorted(plain) or TRAIN)
        return {**splits, "train": train}

    def keep(self, pair: Pair) -> bool:
        """Return whether fairseq's script keeps a pair; it cleans after segmentation."""
        return well_matched(pair, RATIO, LONGEST)


def _plain(folder: Path, split: str) -> list[Raw]:
    """Return both sides of the files ``NAME.de`` and ``NAME.en`` of a split; all except newstests are for training."""
    matches = [re.fullmatch(r"(.+)\.(?:de|en)(?:\.gz|\.xz)?", path.name) for path in folder.iterdir() if path.is_file()]
    names = {match[1] for match in matches if match}
    names &= {TESTS[split]} if split in TESTS else {name for name in names if not name.startswith("newstest")}
    sides = [f"{name}.{lang}" for name in sorted(names) for lang in LANGUAGES]
    return [Raw(side, path=find_text(folder / side)) for side in sides]


def _pairs(files: RawFiles, name: str) -> Iterator[Pair]:
    """Return the pairs of a shard or a newstest, from its files or from its archive."""
    if f"{name}.de" in files:
        return read_pairs([files[f"{name}.{lang}"] for lang in LANGUAGES])
    archive = files[TRAIN.get(name, NEWSTESTS).name]
    if name in TRAIN:
        sides = [read_member(archive, [f"{name}.{lang}"]) for lang in LANGUAGES]
    else:  # plain text or SGML
        ends = [f"{pair}-{role}" for pair in ("-deen", "") for role in ("src", "ref")]
        names = [[f"{name}.{lang}", *(f"{name}{end}.{lang}.sgm" for end in ends)] for lang in LANGUAGES]
        texts = [list(read_member(archive, members)) for members in names]
        sides = [iter(segments(lines) or lines) for lines in texts]
    return parallel([archive / f"{name}.{lang}" for lang in LANGUAGES], sides)
