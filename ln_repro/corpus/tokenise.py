"""Tokenisation, identical to that of Moses' tokenizer.perl."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache

from sacremoses.corpus import NonbreakingPrefixes
from sacremoses.normalize import MosesPunctNormalizer
from sacremoses.tokenize import MosesDetokenizer, MosesTokenizer

from ln_repro.corpus.base import Style
from ln_repro.experiment.data import base_code

SPACE = re.compile(r"\s")
DIGITS = frozenset("0123456789")
KNOWN_LANGUAGES = frozenset(NonbreakingPrefixes().available_langs)
"""The languages whose abbreviations are known; others are tokenised with those of English."""


class ExactTokenizer(MosesTokenizer):
    """The tokenizer of sacremoses with tokenizer.perl's rule for full stops.

    The script always splits the full stop off the last word ("... the U.S." becomes "... the U.S ."). In a run of
    spaces, it takes the next word to be empty and therefore not lower-case.
    """

    def __init__(self, lang: str) -> None:
        super().__init__(lang)
        self._numeric = frozenset(self.NUMERIC_ONLY_PREFIXES)
        self._always = frozenset(self.NONBREAKING_PREFIXES) - self._numeric
        self._lower = frozenset(self.IsLower)
        self._alpha = frozenset(self.IsAlpha)

    def handles_nonbreaking_prefixes(self, text: str) -> str:
        """Split the full stop off each word that is not an abbreviation."""
        words = SPACE.split(text.rstrip())
        for number, word in enumerate(words):
            if len(word) > 1 and word[-1] == ".":
                following = words[number + 1][:1] if number + 1 < len(words) else None
                if following is None or not self._keeps_stop(word[:-1], following):
                    words[number] = word[:-1] + " ."
        return " ".join(words)

    def _keeps_stop(self, word: str, following: str) -> bool:
        """Return whether the full stop after ``word`` belongs to it, given the next word's first letter."""
        abbreviation = ("." in word and not self._alpha.isdisjoint(word)) or word in self._always
        return abbreviation or following in self._lower or (word in self._numeric and following in DIGITS)


@cache
def tokeniser(lang: str, style: Style) -> Callable[[str], str]:
    """Return a function that tokenises a sentence, with Moses' XML escapes."""
    moses = ExactTokenizer(base_code(lang))
    normaliser = MosesPunctNormalizer(base_code(lang)) if style.normalise else None

    def tokenise(text: str) -> str:
        if style.apostrophes:
            text = text.replace("\u2019", "'")
        if normaliser is not None:
            text = _printable(normaliser.normalize(text))
        return str(moses.tokenize(text, aggressive_dash_splits=style.aggressive, return_str=True))

    return tokenise


def detokenise(lines: Sequence[str], language: str) -> list[str]:
    """Detokenise sentences that were tokenised by Moses."""
    moses = MosesDetokenizer(lang=base_code(language))
    return [moses.detokenize(line.split()) for line in lines]


def _printable(text: str) -> str:
    """Return the text with spaces for non-printing characters (remove-non-printing-char.perl)."""
    if text.isprintable():  # the usual case, much faster
        return text
    return "".join(" " if unicodedata.category(letter)[0] == "C" else letter for letter in text)
