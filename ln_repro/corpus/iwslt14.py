"""IWSLT14 German-English, prepared as by fairseq's prepare-iwslt14.sh; the test set is equal byte for byte."""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from ln_repro.corpus.base import LANGUAGES, Corpus, Found, Raw, Splits, Style, wanted
from ln_repro.corpus.text import Pair, parallel, read_lines, well_matched
from ln_repro.experiment.data import Data

DIGESTS = {
    "train.tags.de-en.de": "git:41272b9c39682b4203f9026013568659e43c4944",
    "train.tags.de-en.en": "git:d2f9bcf958aa81517677e1468fd35a3240229808",
    "IWSLT14.TED.dev2010.de-en.de.xml": "sha256:6bb2e8272bc49a4f19df2150a482a1b856fa6a2d6b289d3a80ac6b4ff66070fe",
    "IWSLT14.TED.dev2010.de-en.en.xml": "sha256:5c860ebb64d4ecdc65800c7ba59732d27cff8b296fa7eeafbcd4614a2c572700",
    "IWSLT14.TEDX.dev2012.de-en.de.xml": "sha256:e818a77a43e18ec4726a698e5aa9c438e0cd4b82d4edd27286163bee44e85604",
    "IWSLT14.TEDX.dev2012.de-en.en.xml": "sha256:a5de03e0e18cf5ad4b2b4ba66f11510a8576fa1a7c172190860cabfd17bff99a",
    "IWSLT14.TED.tst2010.de-en.de.xml": "sha256:5648c0a3a6e5eb3ab6fbdfbdeca69a20a1637a37361e337ab47418d71972880d",
    "IWSLT14.TED.tst2010.de-en.en.xml": "sha256:fa9ce190959320cb5a5a68358ad793e5863621f87a28e9f4312110ac5b842efc",
    "IWSLT14.TED.tst2011.de-en.de.xml": "sha256:a70163216273ab5622cbbb19fea6dfde42ab6d3ad70374444323e65f71837735",
    "IWSLT14.TED.tst2011.de-en.en.xml": "sha256:d350eac4cb6f0cf3e787c9e82b8074bdc7e58c4ca7d650c9b97de8a677068695",
    "IWSLT14.TED.tst2012.de-en.de.xml": "sha256:edf69bd9e41acd93e13d01f55a2906b7be0f69cd90a46e343294dfd3190db952",
    "IWSLT14.TED.tst2012.de-en.en.xml": "sha256:cd73e997ce078699863278daef06b9a226d1adbec4c3cac91a0894d7eab5c1f8",
}
TESTS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
"""The evaluation sets, in the order in which the test set concatenates them."""

LEFT_OUT = ("<url>", "<talkid>", "<keywords>")
"""Tags of lines in the training text that are not translated."""
TAGS = re.compile(r"</?(?:title|description)>")
SEGMENT = re.compile(r'<seg id="[0-9]*">\s*|\s*</seg>\s*')
RATIO, LONGEST = 1.5, 175
"""Limits given to clean-corpus-n.perl: ratio of the lengths, and length in words."""
EVERY = 23
"""Every 23rd pair goes to the validation set."""


class Iwslt14(Corpus):
    """IWSLT14 with 160,239 / 7,283 / 6,750 pairs; the paper only says "about 153K/7K/7K"."""

    name = "iwslt14"
    description = "IWSLT14 TED talks, the split of fairseq's prepare-iwslt14.sh"
    origin = "wit3.fbk.eu, IWSLT14, archive 2014-01/texts/de/en/de-en.tgz"
    licence = "CC BY-NC-ND 3.0"
    by_hand = "get IWSLT14's de-en.tgz and give it, or its unpacked folder, as data.source=PATH"
    pairs: ClassVar[Mapping[str, int]] = {"train": 160_239, "valid": 7_283, "test": 6_750}
    folders = (".", "de-en")
    archive = Raw(
        "de-en.tgz",
        "git:aa8c3f40f8836f1d43701448f94fe7e230082b4c",
        (
            "https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz",
            "https://wit3.fbk.eu/archive/2014-01/texts/de/en/de-en.tgz",
        ),
    )

    def inputs(self, data: Data) -> list[Raw]:
        """Return the training text with tags, and the evaluation sets in XML."""
        train = "train" in wanted(data)
        return [Raw(name, digest) for name, digest in DIGESTS.items() if train or not name.startswith("train")]

    def style(self, split: str) -> Style:
        return Style(apostrophes=split == "test")

    def read(self, data: Data, found: Found) -> Splits:
        """Return the test set, and the training text including the validation set."""
        sets = [_segments([found[f"IWSLT14.{name}.de-en.{lang}.xml"] for lang in LANGUAGES]) for name in TESTS]
        test = itertools.chain.from_iterable(sets)
        if data.only:
            return {"test": test}
        train = _training([found[f"train.tags.de-en.{lang}"] for lang in LANGUAGES])
        return {"train": train, "valid": (), "test": test}

    def assign(self, pairs: Callable[[], Iterator[Pair]], note: Callable[[str], None]) -> Iterator[str | None]:
        """Clean the training text and move every 23rd pair to the validation set."""
        kept = dropped = 0
        for pair in pairs():
            if well_matched(pair, RATIO, LONGEST):
                kept += 1
                yield "train" if kept % EVERY else "valid"
            else:
                dropped += 1
                yield None
        note(f"iwslt14: {dropped} pairs dropped because they are too long or badly matched")


def _training(paths: list[Path]) -> Iterator[Pair]:
    """Yield the training text without untranslated lines and tags."""
    sides = [
        (TAGS.sub("", line).strip() for line in read_lines(path) if not any(tag in line for tag in LEFT_OUT))
        for path in paths
    ]
    return parallel(paths, sides)


def _segments(paths: list[Path]) -> Iterator[Pair]:
    """Yield the segments of an evaluation set."""
    sides = [(SEGMENT.sub("", line).strip() for line in read_lines(path) if "<seg id" in line) for path in paths]
    return parallel(paths, sides)
