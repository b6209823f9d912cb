"""Multi30k (Elliott et al. 2016), task 1: captions of images, German and English."""

from collections.abc import Mapping
from typing import ClassVar

from ln_repro.corpus.base import LANGUAGES, Corpus, Raw, RawFiles, Splits, Style
from ln_repro.corpus.text import read_pairs
from ln_repro.experiment.data import Data

URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
FILES = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
SHA256 = {
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
}


class Multi30k(Corpus):
    """Multi30k, normalised, tokenised and by default lower-cased, as is usual for this corpus."""

    name = "multi30k"
    description = "Multi30k task 1, image captions, test_2016_flickr"
    origin = "github.com/multi30k/dataset"
    licence = "none stated; citation of Elliott et al. 2016 requested"
    by_hand = f"get {', '.join(SHA256)} from {URL} and give their folder as data.source=PATH"
    pairs: ClassVar[Mapping[str, int]] = {"train": 29_000, "valid": 1_014, "test": 1_000}

    def inputs(self, data: Data) -> list[Raw]:
        names = [f"{FILES[split]}.{lang}.gz" for split in data.splits for lang in LANGUAGES]
        return [Raw(name, f"sha256:{SHA256[name]}", (f"{URL}/{name}",)) for name in names]

    def style(self, split: str) -> Style:
        return Style(normalise=True)

    def read(self, data: Data, files: RawFiles) -> Splits:
        return {split: read_pairs([files[f"{FILES[split]}.{lang}.gz"] for lang in LANGUAGES]) for split in data.splits}
