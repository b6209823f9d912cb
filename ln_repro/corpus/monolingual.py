"""The user's own text in one language, with one sentence per line."""

from ln_repro.corpus.base import Corpus, Found, Raw, wanted
from ln_repro.corpus.text import Splits, find_text, read_lines, refuse_empty
from ln_repro.errors import UserError
from ln_repro.experiment.data import Data


class Monolingual(Corpus):
    """Text for masked language modelling; its only side is both source and target."""

    name = "text"
    description = "your own text in one language, for task=masked_lm"
    origin = "your files"
    licence = "yours"
    by_hand = (
        "give data.train=FILE data.valid=FILE, and data.test=FILE if you have one, with one sentence per line "
        "(.gz and .xz are accepted)"
    )
    languages = None

    def inputs(self, data: Data) -> list[Raw]:
        """Return the file of each split; the test split may be left out."""
        paths = {split: getattr(data, split) for split in wanted(data)}
        if missing := [split for split, path in paths.items() if path is None and (split != "test" or data.only)]:
            raise UserError(f"data.{missing[0]}: is not given; {self.by_hand}")
        places = {split: data.source / path if data.source else path for split, path in paths.items() if path}
        return [Raw(f"{split}.{data.target_lang}", path=find_text(place) or place) for split, place in places.items()]

    def read(self, data: Data, found: Found) -> Splits:
        """Return the splits without blank lines, which may separate documents."""
        splits: Splits = {}
        for raw in self.inputs(data):
            sides = {data.target_lang: [line for line in read_lines(found[raw.name]) if line]}
            refuse_empty({data.target_lang: found[raw.name]}, sides)
            splits[raw.name.partition(".")[0]] = sides
        return splits

    def check(self, data: Data) -> None:
        """Raise `UserError` unless both languages are the same."""
        if data.source_lang != data.target_lang:
            raise UserError(
                f"data.source_lang, data.target_lang: text is in one language, give it twice; got {data.source_lang} "
                f"and {data.target_lang}"
            )
