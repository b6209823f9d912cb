"""WMT14 English to German: the user's training text, newstest2013 and newstest2014."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from ln_repro.corpus.base import Corpus, Found, Raw, Style, wanted
from ln_repro.corpus.clean import well_matched
from ln_repro.corpus.text import SUFFIXES, Sides, Splits, find_text, read_lines, read_pair, require_parallel
from ln_repro.errors import UserError
from ln_repro.experiment.data import Data

TESTS = {"valid": "newstest2013", "test": "newstest2014"}
LANGUAGES = ("de", "en")
RATIO, LONGEST = 1.5, 250
"""Limits of prepare-wmt14en2de.sh: ratio of the lengths, and length in subwords."""

SGM = re.compile(r"<seg[^>]*>(.*?)</seg>", re.DOTALL)


class Wmt14(Corpus):
    """WMT14; the user provides the training text in one or more shards."""

    name = "wmt14"
    description = "WMT14 news, newstest2013 and newstest2014; training text from your folder"
    origin = "www.statmt.org/wmt14/translation-task.html"
    licence = "free for research"
    by_hand = (
        "get newstest2013.{de,en}, newstest2014.{de,en} and the training text (europarl-v7, commoncrawl, "
        "news-commentary: NAME.de and NAME.en, .gz or .xz) from statmt.org/wmt14 and give their folder as "
        "data.source=PATH"
    )
    pairs: ClassVar[Mapping[str, int]] = {"valid": 3_000, "test": 3_003}

    def inputs(self, data: Data) -> list[Raw]:
        """Return newstest2013, newstest2014 and all shards in the user's folder."""
        names = [TESTS[split] for split in wanted(data) if split in TESTS]
        if data.source is None or not data.source.is_dir():
            return [Raw(f"{name}.{lang}") for name in names for lang in LANGUAGES]
        if "train" in wanted(data):
            names += _shards(data.source)
        return [Raw(f"{name}.{lang}", path=_side(data.source, name, lang)) for name in names for lang in LANGUAGES]

    def style(self, split: str) -> Style:
        """Return the style of fairseq's script, which normalises the training text but not the evaluation sets."""
        return Style(normalise=split == "train", aggressive=True, apostrophes=split != "train")

    def read(self, data: Data, found: Found) -> Splits:
        """Return the splits, with the shards in alphabetical order."""
        splits: Splits = {
            split: _test({lang: found[f"{TESTS[split]}.{lang}"] for lang in LANGUAGES})
            for split in wanted(data)
            if split in TESTS
        }
        if "train" in wanted(data):
            shards = sorted({name.rpartition(".")[0] for name in found} - set(TESTS.values()))
            if not shards:
                raise UserError(f"data.source: {data.source}: no training text found there; {self.by_hand}")
            pairs = [read_pair({lang: found[f"{shard}.{lang}"] for lang in LANGUAGES}) for shard in shards]
            splits["train"] = {lang: [line for sides in pairs for line in sides[lang]] for lang in LANGUAGES}
        return splits

    def keep(self, train: Sides) -> list[int] | None:
        """Return the pairs that fairseq's script keeps; it cleans after segmentation."""
        return well_matched(train, RATIO, LONGEST)


def _shards(folder: Path) -> list[str]:
    """Return the names of the training shards: every ``NAME.de`` except newstests.

    Raises:
        UserError: a shard has only one side.
    """
    sides: dict[str, set[str]] = {lang: set() for lang in LANGUAGES}
    for path in folder.iterdir():
        name = path.name.removesuffix(path.suffix) if path.suffix in SUFFIXES[1:] else path.name
        stem, _, lang = name.rpartition(".")
        if lang in sides and stem and not stem.startswith("newstest") and path.is_file():
            sides[lang].add(stem)
    for stem in sorted(sides["de"] ^ sides["en"]):
        raise UserError(f"{folder / stem}: has only one of .de and .en; add the other side or remove this one")
    return sorted(sides["de"])


def _side(folder: Path, name: str, lang: str) -> Path:
    """Return one side of a shard or a newstest, in plain text or as SGML."""
    plain = folder / f"{name}.{lang}"
    sgm = [folder / f"{name}-deen-{role}.{lang}.sgm" for role in ("src", "ref")]
    sgm += [folder / f"{name}-{role}.{lang}.sgm" for role in ("src", "ref")]
    return find_text(plain) or next((path for path in sgm if path.is_file()), plain)


def _test(paths: dict[str, Path]) -> Sides:
    """Return a newstest from plain text or SGML."""
    if not any(path.suffix == ".sgm" for path in paths.values()):
        return read_pair(paths)
    texts = {lang: "\n".join(read_lines(path)) for lang, path in paths.items()}
    sides = {lang: [segment.strip() for segment in SGM.findall(text)] for lang, text in texts.items()}
    return require_parallel(paths, sides)
