"""The user's own text: parallel, or in one language for masked language modelling; and English Wikinews."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path

from ln_repro.corpus.base import Corpus, Raw, RawFiles, Splits
from ln_repro.corpus.text import Pair, find_text, read_lines, read_pairs
from ln_repro.errors import UserError
from ln_repro.experiment.data import Data

EVERY = 200  # without a validation file, every 200th document is for validation: the paper's ratio of 199 to 1
TENTH = 10
WIKINEWS = Raw("wikinews.en.txt.xz", "sha256:402d4ee237a81aaf0fec421e72a86e2ada4204be16bf6f042ffce88ee532eb47")


class Files(Corpus):
    """Parallel text in files named ``PREFIX.<language>``, plain, ``.gz`` or ``.xz``, with one prefix per split."""

    name = "files"
    own = True
    description = "your own parallel text"
    origin = "your files"
    licence = "yours"
    by_hand = (
        "give data.train=PREFIX data.valid=PREFIX data.test=PREFIX, with the sides at "
        "PREFIX.<data.source_lang> and PREFIX.<data.target_lang> (.gz and .xz are accepted)"
    )
    languages = ()
    numbered = True

    def inputs(self, data: Data) -> list[Raw]:
        if missing := [split for split in data.splits if getattr(data, split) is None]:
            raise UserError(f"data.{missing[0]}: is not given; {self.by_hand}")
        return [
            Raw(f"{split}.{lang}", path=find_text(_below_source(data, f"{getattr(data, split)}.{lang}")))
            for split in data.splits
            for lang in data.languages
        ]

    def read(self, data: Data, files: RawFiles) -> Splits:
        return {split: read_pairs([files[f"{split}.{lang}"] for lang in data.languages]) for split in data.splits}


class Monolingual(Corpus):
    """Text for masked language modelling; its only side is both source and target."""

    name = "text"
    own = True
    description = "your own text in one language, for task=masked_lm"
    origin = "your files"
    licence = "yours"
    by_hand = (
        "give data.train=FILE, and data.valid=FILE (otherwise, every 200th document is for validation) and data.test="
        "FILE if you have them, with one sentence per line and blank lines between documents (.gz and .xz are accepted)"
    )
    languages = ()
    parallel = False
    unit = "sentence"
    longest = math.inf
    cleaned = "without printable text"

    def inputs(self, data: Data) -> list[Raw]:
        """Return the file of each split; valid, of which `read` can take the place, and test may be left out."""
        paths = {split: getattr(data, split) for split in data.splits}
        if paths[needed := data.splits[0]] is None:
            raise UserError(f"data.{needed}: is not given; {self.by_hand}")
        return [
            Raw(f"{split}.{data.target_lang}", path=find_text(_below_source(data, path)))
            for split, path in paths.items()
            if path is not None
        ]

    def read(self, data: Data, files: RawFiles) -> Splits:
        """Return the splits; without a validation file, every 200th document of the training text is for validation."""
        paths = {name.partition(".")[0]: path for name, path in files.items()}
        splits = {split: _sentences(path) for split, path in paths.items()}
        if "train" in paths and "valid" not in paths:
            splits["train"] = _sentences(paths["train"], lambda number: number % EVERY != 0)
            splits["valid"] = _sentences(paths["train"], lambda number: number % EVERY == 0)
        return splits


class Wikinews(Monolingual):
    """English Wikinews, one paragraph per line. One article in ten is used, so that an epoch takes a minute or two."""

    name = "wikinews"
    own = False
    description = "English Wikinews, for task=masked_lm: a tenth of its articles, 0.6M words"
    origin = "en.wikinews.org"
    licence = "CC BY 2.5"
    tested = False
    by_hand = (
        "give its path as data.source=PATH (for a text of your own, made from dumps.wikimedia.org/enwikinews, with one "
        "paragraph per line and blank lines between articles, also data.checksum=record)"
    )

    def inputs(self, data: Data) -> list[Raw]:
        return [WIKINEWS]

    def read(self, data: Data, files: RawFiles) -> Splits:
        """Return every tenth article for training, and every 200th of the others for validation."""
        path = files[WIKINEWS.name]
        return {
            "train": _sentences(path, lambda number: number % TENTH == 1),
            "valid": _sentences(path, lambda number: number % EVERY == 0),
        }


def _below_source(data: Data, path: str | Path) -> Path:
    """Return a path, relative to ``data.source`` if that is given."""
    return data.source / path if data.source else Path(path)


def _sentences(path: Path, wanted: Callable[[int], bool] = lambda number: True) -> Iterator[Pair]:
    """Yield the sentences of the documents, numbered from 1 and separated by blank lines, that are ``wanted``."""
    document, after_blank = 0, True
    for line in read_lines(path):
        document += bool(line) and after_blank
        after_blank = not line
        if line and wanted(document):
            yield (line,)
