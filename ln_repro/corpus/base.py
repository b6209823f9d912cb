"""What a corpus is: where its raw files come from, and how they become parallel lines."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ln_repro.corpus.text import Sides, Splits
from ln_repro.errors import UserError
from ln_repro.experiment.data import Data


@dataclass(frozen=True)
class Raw:
    """One raw file. ``digest`` is ``sha256:...`` or ``git:...`` where the genuine content is known."""

    name: str
    digest: str | None = None
    urls: tuple[str, ...] = ()
    path: Path | None = None
    """Where it lies, when the settings alone say so."""


@dataclass(frozen=True)
class Arranged:
    """The splits, before and after tokenising, line by line the same pairs."""

    raw: Splits
    text: Splits
    remarks: tuple[str, ...] = ()
    """What was left out and why, for the user and the manifest."""


@dataclass(frozen=True)
class Style:
    """What a recipe asks for besides splitting words; the literature's choice, not the user's."""

    normalise: bool = False
    """Normalise punctuation first (normalize-punctuation.perl, then remove-non-printing-char.perl)."""
    aggressive: bool = False
    """Split at hyphens, ``foo @-@ bar`` (tokenizer.perl -a)."""
    apostrophes: bool = False
    """Typewriter apostrophes first, as fairseq's scripts do in evaluation sets alone."""


Found = Mapping[str, Path]
"""Raw files by name."""


class Corpus(ABC):
    """One corpus. The pipeline calls `inputs`, `read`, `arrange` and `keep`, in this order."""

    name: ClassVar[str]
    description: ClassVar[str]
    origin: ClassVar[str]
    licence: ClassVar[str]
    by_hand: ClassVar[str]
    """What to get by hand, and which option takes it; completes 'the corpus is not here: ...'."""
    revision: ClassVar[int] = 1
    """Raised whenever a change of code changes the prepared text."""
    languages: ClassVar[frozenset[str] | None] = frozenset({"de", "en"})
    """The languages it is in, None where the user says so."""
    pairs: ClassVar[Mapping[str, int]] = {}
    """Pairs that each split must have, where that is known."""
    folders: ClassVar[tuple[str, ...]] = (".",)
    """Where in the user's folder the raw files may lie."""
    archive: ClassVar[Raw | None] = None
    """The archive that holds all raw files, if they come in one."""

    @abstractmethod
    def inputs(self, data: Data) -> list[Raw]:
        """Return the raw files that these settings need."""

    @abstractmethod
    def read(self, data: Data, found: Found) -> Splits:
        """Return the raw lines of the splits (of the test split alone if ``data.only`` says so)."""

    def language(self, side: str) -> str:
        """Return the language whose rules of tokenising a side follows; a side is named by it unless told otherwise."""
        return side

    def style(self, split: str) -> Style:
        """Return how the lines that `read` gave as this split are tokenised."""
        return Style()

    def arrange(self, raw: Splits, text: Splits) -> Arranged:
        """Clean and split, now that the lines are tokenised (but not yet lower-cased)."""
        return Arranged(raw, text)

    def keep(self, train: Sides) -> list[int] | None:
        """Return the numbers of the segmented training pairs to keep, None for all."""
        return None

    def expected(self, data: Data) -> Mapping[str, int]:
        """Return the pairs that each prepared split must have, where known."""
        return self.pairs

    def reference_tokens(self, data: Data) -> Mapping[str, int]:
        """Return segmented training tokens by language, with end marks; a difference is reported."""
        return {}

    def check(self, data: Data) -> None:
        """Refuse settings that this corpus cannot serve.

        Raises:
            UserError: a language that the corpus is not in, or the same one twice.
        """
        pair = (data.source_lang, data.target_lang)
        if pair[0] == pair[1]:
            raise UserError(f"data.source_lang, data.target_lang: must differ, both are {pair[0]!r}")
        if self.languages is not None and frozenset(pair) != self.languages:
            accepted = " and ".join(sorted(self.languages))
            raise UserError(
                f"data.source_lang, data.target_lang: {self.name} is in {accepted}, got {' and '.join(pair)}"
            )


def wanted(data: Data) -> tuple[str, ...]:
    """Return the splits that these settings ask for."""
    return ("test",) if data.only == "test" else ("train", "valid", "test")
