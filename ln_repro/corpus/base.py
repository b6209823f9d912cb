"""The interface of corpora: their raw files, and how these are read, cleaned and split."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ln_repro.corpus.text import Pair
from ln_repro.errors import UserError
from ln_repro.experiment.data import Data

UNPACKED = "unpacked-sha256"  # the kind of a checksum of text that may be compressed: that of the text itself


@dataclass(frozen=True)
class Raw:
    """One raw file."""

    name: str
    digest: str | None = None  # ``sha256:...``, ``git:...`` or `UNPACKED` of the published file, if known
    urls: tuple[str, ...] = ()  # where it can be downloaded
    path: Path | None = None  # its location, if the settings give it
    alias: str | None = None  # another name that the file may have
    kind: str = "sha256"  # of its checksum in the fingerprint, if ``digest`` is not used


@dataclass(frozen=True)
class Style:
    """How lines are tokenised; fixed by the reference preparation of a corpus."""

    normalise: bool = False  # run normalize-punctuation.perl and remove-non-printing-char.perl first
    aggressive: bool = False  # split at hyphens, ``foo @-@ bar`` (tokenizer.perl -a)
    apostrophes: bool = False  # replace typographic ones first, as fairseq's scripts do in evaluation sets
    segmented: bool = False  # not at all: lines are tokenised, in lower case and segmented by `Corpus.codes` already


STEPS = 1  # increased whenever a change to the shared steps changes the prepared text of any corpus
LANGUAGES = ("de", "en")
RawFiles = Mapping[str, Path]  # raw files by name
Splits = Mapping[str, Iterable[Pair]]  # pairs by the name of their split: train, valid, test


class Corpus(ABC):
    """One corpus. The pipeline calls `inputs`, `read`, `assign` and `keep`, in this order."""

    name: ClassVar[str]
    description: ClassVar[str]
    origin: ClassVar[str]
    licence: ClassVar[str]
    by_hand: ClassVar[str]  # what to download by hand and which option to give; the end of an error message
    revision: ClassVar[int] = 1  # increased whenever a change of code changes the prepared text
    languages: ClassVar[tuple[str, ...]] = LANGUAGES  # none if the settings choose them
    parallel: ClassVar[bool] = True  # whether a pair has two sides; otherwise, both languages are the same
    tested: ClassVar[bool] = True  # whether the corpus can have a test set, as ``data.only`` requires
    pairs: ClassVar[Mapping[str, int]] = {}  # of each split of the published corpus, where known
    folders: ClassVar[tuple[str, ...]] = (".",)  # below ``data.source``, where the raw files may be
    own: ClassVar[bool] = False  # whether ``data.train``, ``data.valid`` and ``data.test`` name its files
    renewed: ClassVar[bool] = False  # whether its publisher updates the files, so that others count as published, too
    generated: ClassVar[bool] = False  # whether it has no raw files
    archive: ClassVar[Raw | None] = None  # the archive with all raw files, if they are published as one
    longest: ClassVar[float] = 1_023  # subwords of a side; with ``</s>``, they fill the model's 1,024 positions
    unit: ClassVar[str] = "sentence pair"  # what a line of each side is called in messages
    numbered: ClassVar[bool] = False  # whether pair N of a split is line N of its raw files, for messages
    dropped: ClassVar[str] = ""  # why `assign` leaves out pairs
    cleaned: ClassVar[str] = "with an empty side or more than 1,023 subwords"  # which training pairs are left out later

    def in_form_of(self, data: Data) -> "Corpus":
        """Return the corpus that reads the files in ``data.source``, where they may have several forms."""
        return self

    @abstractmethod
    def inputs(self, data: Data) -> list[Raw]:
        """Return the raw files that these settings need."""

    @abstractmethod
    def read(self, data: Data, files: RawFiles) -> Splits:
        """Return the raw pairs of the splits (only of the test split if ``data.only`` is set), which are read lazily.

        Raises:
            UserError: also while they are read, if a file is damaged or not as expected.
        """

    def sides(self, data: Data) -> Mapping[str, str]:
        """Return the language whose tokenisation rules apply to each side of a pair, by the name of the side."""
        return {lang: lang for lang in self.languages or data.languages}

    def style(self, split: str) -> Style:
        """Return the tokenisation style for a split from `read`."""
        return Style()

    def codes(self, data: Data, files: RawFiles) -> str:
        """Return the merge table that comes with the text, "" if there is none; raise `UserError` if it is damaged."""
        return ""

    def train_percent(self, pairs: int, tokens: Mapping[str, int]) -> int | None:
        """Return how much of the published training text there is, in percent; None if it is not a part of it.

        Args:
            pairs: number of prepared training pairs.
            tokens: their number of subwords on each side, with ``</s>``.
        """
        return 100

    def assign(self, pairs: Callable[[], Iterator[Pair]]) -> Iterator[str | None] | None:
        """Yield the prepared split of each training pair from `read`, None to leave it out; None if all remain.

        ``pairs`` returns an iterator over them, tokenised, and may be called repeatedly.
        """
        return None

    def keep(self, pair: Pair) -> bool:
        """Return whether to keep a segmented training pair."""
        return True

    def check(self, data: Data) -> None:
        """Raise `UserError` if the corpus has not these languages or no test set, or an option would be ignored."""
        options = ("source",) if self.generated else ()
        for option in options if self.own else (*options, "train", "valid", "test"):
            if getattr(data, option):
                raise UserError(f"data.{option}: {self.name} has its own text; use data=files or data=text for yours")
        if data.only and not self.tested:
            raise UserError(f"data.only: {self.name} has no {data.only} set; leave it out")
        rule = None
        if (len(data.languages) == 2) != self.parallel:
            rule = "must differ" if self.parallel else f"{self.name} is in one language, give it twice"
        elif self.languages and {*data.languages} != {*self.languages}:
            rule = f"{self.name} is in {' and '.join(sorted(self.languages))}"
        if rule:
            got = f"{data.source_lang} and {data.target_lang}"
            raise UserError(f"data.source_lang, data.target_lang: {rule}; got {got}")
