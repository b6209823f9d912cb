"""IWSLT14 German-English, prepared as by fairseq's prepare-iwslt14.sh; the test set is equal byte for byte.

The script's own output is accepted, too.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from ln_repro.corpus.base import LANGUAGES, UNPACKED, Corpus, Raw, RawFiles, Splits, Style
from ln_repro.corpus.text import Pair, find_text, parallel, read_lines, read_pairs, segments, well_matched
from ln_repro.errors import UserError
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
ORIGINAL = ("de-en.tgz", "train.tags.de-en.de", "de-en/train.tags.de-en.de")
"""Where the original training text may be in a folder; it has precedence over `SEGMENTED`."""
SEGMENTED: Mapping[str, str | None] = {
    "code": "3dd02684b6693abce3ba59520425901b0b910abeec2ae6b15cc62e458441d503",
    "train.de": None,
    "train.en": None,
    "valid.de": "27660c689b99b54f0f858775527ff351c520f7581be90aac84b6d16f14624c9e",
    "valid.en": "1b1f2246625cc907fbd9c8195776434b24687c3fc4e068c6f3d3ec542846823f",
    "test.de": "0bca28e500495a4a9694ae134b0ae35526a280cb0966abbcf3c9af3edc3dfe10",
    "test.en": "c2951533a0b03557599978ea1726c440bdbb8210454d1e9ef3b87c2b6228ac43",
}
"""The files that fairseq's script writes, with the SHA-256 of their text; that of the training text is not known."""
TOKENS = {"de": 4_035_591, "en": 3_949_114}
"""Number of subwords of the training text that the script writes, with ``</s>``."""
TESTS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
"""The evaluation sets, in the order in which the test set concatenates them."""

LEFT_OUT = ("<url>", "<talkid>", "<keywords>")  # tags of lines in the training text that are not translated
TAGS = re.compile(r"</?(?:title|description)>")
RATIO, LONGEST = 1.5, 175  # limits given to clean-corpus-n.perl: ratio of the lengths, and length in words
EVERY = 23  # every 23rd pair goes to the validation set


class Iwslt14(Corpus):
    """IWSLT14 with 160,239 / 7,283 / 6,750 pairs; the paper only says "about 153K/7K/7K"."""

    name = "iwslt14"
    description = (
        "IWSLT14 TED talks, the split of fairseq's prepare-iwslt14.sh (data.source: de-en.tgz, its unpacked folder, or "
        "the folder that the script made)"
    )
    origin = "wit3.fbk.eu, IWSLT14, archive 2014-01/texts/de/en/de-en.tgz"
    licence = "CC BY-NC-ND 3.0"
    by_hand = (
        "get IWSLT14's de-en.tgz and give it, its unpacked folder, or the folder that fairseq's prepare-iwslt14.sh "
        "made of it (code, and train, valid and test .de and .en), as data.source=PATH"
    )
    pairs: ClassVar[Mapping[str, int]] = {"train": 160_239, "valid": 7_283, "test": 6_750}
    folders = (".", "de-en")
    dropped = "too long or badly matched"
    archive: ClassVar[Raw | None] = Raw(
        "de-en.tgz",
        "git:aa8c3f40f8836f1d43701448f94fe7e230082b4c",
        (
            "https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz",
            "https://wit3.fbk.eu/archive/2014-01/texts/de/en/de-en.tgz",
        ),
    )

    def in_form_of(self, data: Data) -> Corpus:
        """Return `SegmentedIwslt14` if ``data.source`` has what fairseq's script writes, and not what it reads."""
        if data.source is None or any((data.source / name).is_file() for name in ORIGINAL):
            return self
        segmented = any(find_text(data.source / name).is_file() for name in SEGMENTED)
        return SegmentedIwslt14(data) if segmented else self

    def inputs(self, data: Data) -> list[Raw]:
        """Return the training text with tags, and the evaluation sets in XML."""
        train = "train" in data.splits
        return [Raw(name, digest) for name, digest in DIGESTS.items() if train or not name.startswith("train")]

    def style(self, split: str) -> Style:
        return Style(apostrophes=split == "test")

    def read(self, data: Data, files: RawFiles) -> Splits:
        """Return the test set, and the training text including the validation set."""
        if data.only:
            return {"test": _test(files)}
        paths = [files[f"train.tags.de-en.{lang}"] for lang in LANGUAGES]
        return {"train": parallel(paths, list(map(_translated, paths))), "valid": (), "test": _test(files)}

    def assign(self, pairs: Callable[[], Iterator[Pair]]) -> Iterator[str | None]:
        """Clean the training text and move every 23rd pair to the validation set."""
        accepted = 0
        for pair in pairs():
            if well_matched(pair, RATIO, LONGEST):
                accepted += 1
                yield "train" if accepted % EVERY else "valid"
            else:
                yield None


class SegmentedIwslt14(Iwslt14):
    """IWSLT14 as fairseq's prepare-iwslt14.sh leaves it on disk: tokenised, in lower case, and in BPE.

    Only a part of the training text may be there; validation and test set are whole. The untokenised references of the
    test set are those of the evaluation XML if it lies in the same folder, or in de-en below it; otherwise, and for the
    validation set, they are the tokenised ones after `ln_repro.corpus.tokenise.detokenise`.
    """

    origin = "fairseq's examples/translation/prepare-iwslt14.sh"
    pairs: ClassVar[Mapping[str, int]] = {}
    archive = None
    numbered = True

    def __init__(self, data: Data) -> None:
        xml = (data.source / folder / name for folder in self.folders for name in DIGESTS if data.source)
        self.has_xml = data.checksum == "strict" and any(path.is_file() for path in xml if path.suffix == ".xml")

    def check(self, data: Data) -> None:
        super().check(data)
        if not data.lowercase:
            raise UserError("data.lowercase: the output of fairseq's prepare-iwslt14.sh is in lower case; leave it out")
        if data.vocabulary is not None:
            raise UserError("data.vocabulary: the output of fairseq's prepare-iwslt14.sh has its own; leave it out")

    def inputs(self, data: Data) -> list[Raw]:
        """Return the merges, the sides of the splits, and the evaluation XML if there is any of it."""
        assert data.source is not None
        texts = [
            Raw(name, digest and f"{UNPACKED}:{digest}", path=find_text(data.source / name), kind=UNPACKED)
            for name, digest in SEGMENTED.items()
            if name.partition(".")[0] in ("code", *data.splits)
        ]
        return texts + [raw for raw in super().inputs(data) if self.has_xml and raw.name.endswith(".xml")]

    def style(self, split: str) -> Style:
        return super().style(split) if split == "test" and self.has_xml else Style(segmented=True)

    def codes(self, data: Data, files: RawFiles) -> str:
        lines = [line for line in read_lines(files["code"]) if not line.startswith("#version")]
        if odd := [line for line in lines if len(line.split(" ")) != 2]:
            raise UserError(f"{files['code']}: expected two symbols a line, found {odd[0][:80]!r}; {self.by_hand}")
        if not lines or len(lines) != data.bpe_merges:
            raise UserError(f"data.bpe_merges: {files['code']} has {len(lines)} merges, not {data.bpe_merges}")
        return "".join(f"{line}\n" for line in ("#version: 0.2", *lines))

    def read(self, data: Data, files: RawFiles) -> Splits:
        """Return the splits in BPE, but the test set from the XML if that is there."""
        splits = {split: read_pairs([files[f"{split}.{lang}"] for lang in LANGUAGES]) for split in data.splits}
        return splits | ({"test": _test(files)} if self.has_xml else {})

    def assign(self, pairs: Callable[[], Iterator[Pair]]) -> Iterator[str]:
        """Keep every training pair; the script has cleaned and split them."""
        return ("train" for _ in pairs())

    def train_percent(self, pairs: int, tokens: Mapping[str, int]) -> int | None:
        whole = Iwslt14.pairs["train"]
        if pairs == whole and tokens == TOKENS:
            return 100
        part = pairs < whole and all(tokens[lang] < TOKENS[lang] for lang in LANGUAGES)
        return min(max(round(100 * pairs / whole), 1), 99) if part else None


def _test(files: RawFiles) -> Iterator[Pair]:
    """Yield the test set from the evaluation XML."""
    for name in TESTS:
        paths = [files[f"IWSLT14.{name}.de-en.{lang}.xml"] for lang in LANGUAGES]
        yield from parallel(paths, [segments(read_lines(path)) for path in paths])


def _translated(path: Path) -> Iterator[str]:
    """Yield the lines of a side of the training text that are translated, without tags."""
    return (TAGS.sub("", line).strip() for line in read_lines(path) if not any(tag in line for tag in LEFT_OUT))
