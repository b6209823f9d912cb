"""Cleaning of parallel training text by the rule of Moses' clean-corpus-n.perl."""

from ln_repro.corpus.text import Pair

LONGEST_WORD = 1_000
"""Maximum number of characters per word; pairs with a longer word are dropped."""


def well_matched(pair: Pair, ratio: float, longest: int) -> bool:
    """Return whether each side has 1 to ``longest`` tokens, and the ratio of the lengths is at most ``ratio``."""
    words = [side.split() for side in pair]
    short, long = sorted(map(len, words))
    fits = 1 <= short <= long <= min(longest, ratio * short)
    return fits and all(len(word) <= LONGEST_WORD for side in words for word in side)
