"""Cleaning of parallel training text by the rule of Moses' clean-corpus-n.perl."""

from ln_repro.corpus.text import Sides

LONGEST_WORD = 1_000
"""Maximum number of characters per word; pairs with a longer word are dropped."""


def well_matched(sides: Sides, ratio: float, longest: int) -> list[int]:
    """Return the indices of the pairs with 1 to ``longest`` tokens per side and a length ratio up to ``ratio``."""
    kept = []
    for index, lines in enumerate(zip(*sides.values(), strict=True)):
        pair = [line.split() for line in lines]
        short, long = sorted(map(len, pair))
        if 1 <= short <= long <= min(longest, ratio * short) and all(
            len(t) <= LONGEST_WORD for side in pair for t in side
        ):
            kept.append(index)
    return kept
