"""The toy corpus: always the same, with one translation of each sentence."""

import hashlib

from corpus_helpers import settings

from ln_repro.corpus.prepare import CORPORA
from ln_repro.corpus.toy import generate

#: sha256 of the 21,000 generated pairs. A change of the generator changes every toy result: raise Toy.revision.
GOLDEN = "55313d439a1a03467ea1dba02d029a520a57d385a011f066a369a642d38649dd"


def test_the_generator_never_changes() -> None:
    text = "".join(f"{german}\t{english}\n" for german, english in generate(21_000))
    assert hashlib.sha256(text.encode()).hexdigest() == GOLDEN


def test_the_splits_share_no_sentence() -> None:
    splits = CORPORA["toy"].read(settings("toy"), {})
    assert {name: len(list(pairs)) for name, pairs in splits.items()} == {"train": 20_000, "valid": 500, "test": 500}
    for side in (0, 1):
        lines = [pair[side] for pairs in splits.values() for pair in pairs]
        assert len(set(lines)) == len(lines) == 21_000
