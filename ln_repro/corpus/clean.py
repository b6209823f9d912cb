"""Pairs that are fit for training, by the rule of Moses' clean-corpus-n.perl."""

from ln_repro.corpus.text import Sides

LONGEST_WORD = 1_000
"""Characters; a pair with a longer word is dropped."""


def well_matched(sides: Sides, ratio: float, longest: int) -> list[int]:
    """Return the numbers of the pairs with 1 to ``longest`` tokens a side and lengths within ``ratio``."""
    first, second = sides.values()
    return [
        number
        for number, pair in enumerate(zip(first, second, strict=True))
        if _fit([line.split() for line in pair], ratio, longest)
    ]


def _fit(pair: list[list[str]], ratio: float, longest: int) -> bool:
    """Say whether two tokenised sentences may be translations of each other."""
    short, long = sorted(len(tokens) for tokens in pair)
    if not 1 <= short <= long <= longest or long / short > ratio:
        return False
    return not any(len(token) > LONGEST_WORD for tokens in pair for token in tokens)
