"""The user's own parallel text."""

from pathlib import Path

from ln_repro.corpus.base import Corpus, Raw, RawFiles, Splits, wanted
from ln_repro.corpus.text import find_text, read_pairs
from ln_repro.errors import UserError
from ln_repro.experiment.data import Data


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
        return [
            Raw(f"{split}.{lang}", path=find_text(_side(data, split, lang)))
            for split in wanted(data)
            for lang in (data.source_lang, data.target_lang)
        ]

    def read(self, data: Data, files: RawFiles) -> Splits:
        return {split: read_pairs([files[f"{split}.{side}"] for side in self.sides(data)]) for split in wanted(data)}


def _side(data: Data, split: str, lang: str) -> Path:
    """Return a side without the ending of compressed text, relative to ``data.source`` if that is given."""
    prefix: Path | None = getattr(data, split)
    if prefix is None:
        raise UserError(f"data.{split}: is not given; {Files.by_hand}")
    side = Path(f"{prefix}.{lang}")
    return data.source / side if data.source else side
