"""Write made-up parallel text of any size, with the lengths of WMT14's sentences.

Usage: python scripts/make_large_text.py PAIRS FOLDER PREFIX...

Each PREFIX names parallel text, PREFIX.de and PREFIX.en (.gz or .xz). Sentences are joined from its lines until they
have a length of WMT14's distribution, about 25 words on average. One word in 60 is replaced by a new compound of two
words of its language, so that the number of different words grows with the text: 122,000 for 0.1 million pairs and
448,000 for 0.5 million. FOLDER receives train.de, train.en, and the same for valid and test (3,000 pairs each), for
``data=files``.
"""

import random
import sys
from pathlib import Path

from ln_repro.corpus.text import find_text, read_pairs

LANGUAGES = ("de", "en")
COMPOUNDS = 60
SIGMA, MEDIAN = 0.6, 21.0
"""Parameters of the log-normal distribution of the number of words of a sentence."""


def main() -> None:
    count, folder, prefixes = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    lines = []
    for prefix in prefixes:
        files = [Path(f"{prefix}.{lang}") for lang in LANGUAGES]
        lines += [pair for pair in read_pairs([find_text(file) for file in files]) if all(pair)]
    words = [sorted({word for pair in lines for word in pair[side].split() if word.isalpha()}) for side in (0, 1)]
    draw = random.Random(1)
    folder.mkdir(parents=True, exist_ok=True)
    for split, size in (("train", count), ("valid", 3_000), ("test", 3_000)):
        with (folder / f"{split}.de").open("w") as german, (folder / f"{split}.en").open("w") as english:
            for _ in range(size):
                wanted = draw.lognormvariate(0, SIGMA) * MEDIAN
                sides: tuple[list[str], list[str]] = ([], [])
                while len(sides[1]) < wanted:
                    for side, line in zip(sides, draw.choice(lines), strict=True):
                        side += line.split()
                limit = max(1, round(wanted)) / len(sides[1])
                for side, of_side, file in zip(sides, words, (german, english), strict=True):
                    chosen = side[: max(1, round(limit * len(side)))]
                    for place in range(len(chosen)):
                        if not draw.randrange(COMPOUNDS):
                            chosen[place] = draw.choice(of_side) + draw.choice(of_side).lower()
                    file.write(" ".join(chosen) + "\n")


if __name__ == "__main__":
    main()
