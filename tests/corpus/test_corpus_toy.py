"""The toy corpus: the same for ever, one translation each, and in another order than the source."""

import hashlib

import pytest
from corpus_helpers import settings

from ln_repro.corpus.registry import CORPORA
from ln_repro.corpus.toy import _sentence, generate

#: sha256 of the 21,000 generated pairs. A change of the generator changes every toy result: raise Toy.revision.
GOLDEN = "55313d439a1a03467ea1dba02d029a520a57d385a011f066a369a642d38649dd"


@pytest.fixture(scope="module")
def pairs() -> list[tuple[str, str]]:
    return list(generate(21_000))


def test_the_generator_never_changes(pairs: list[tuple[str, str]]) -> None:
    text = "".join(f"{german}\t{english}\n" for german, english in pairs)
    assert hashlib.sha256(text.encode()).hexdigest() == GOLDEN


def test_the_splits_share_no_sentence(pairs: list[tuple[str, str]]) -> None:
    splits = CORPORA["toy"].read(settings("toy"), {})
    assert {name: len(sides["de"]) for name, sides in splits.items()} == {"train": 20_000, "valid": 500, "test": 500}
    for lang in ("de", "en"):
        lines = [line for sides in splits.values() for line in sides[lang]]
        assert len(set(lines)) == len(lines) == 21_000


def test_a_source_sentence_has_one_translation() -> None:
    import random

    rng, translations = random.Random(7), {}
    for _ in range(30_000):
        german, english = _sentence(rng)
        assert translations.setdefault(german, english) == english


def test_sizes_suit_a_small_model(pairs: list[tuple[str, str]]) -> None:
    for side in (0, 1):
        lengths = [len(pair[side].split()) for pair in pairs]
        assert 7 < sum(lengths) / len(lengths) < 12
        assert max(lengths) <= 20
        assert 100 < len({word.strip(".,").lower() for pair in pairs for word in pair[side].split()}) < 400


@pytest.mark.parametrize(
    ("german", "english"),
    [
        ("aufgemacht", "opened"),  # participle behind the object
        ("macht die Tür zu.", "closes the door."),  # prefix at the end decides the verb
        ("dass der Onkel", "that the uncle"),
    ],
)
def test_phenomena_are_there(pairs: list[tuple[str, str]], german: str, english: str) -> None:
    assert any(german in source and english in target for source, target in pairs)


def test_verbs_come_last_in_german_only(pairs: list[tuple[str, str]]) -> None:
    perfects = [(source, target) for source, target in pairs if source.endswith((" hat.", " haben.", " habe."))]
    assert len(perfects) > 500
    assert not any(target.endswith(("has.", "have.")) for _, target in perfects)


def test_german_order_is_not_english_order(pairs: list[tuple[str, str]]) -> None:
    """Most objects stand before the verb that governs them on one side and behind it on the other."""
    moved = [
        target.index("opened") < target.index("door") and source.index("aufgemacht") > source.index("Tür")
        for source, target in pairs
        if "aufgemacht" in source and "Tür" in source
    ]
    assert len(moved) > 50
    assert all(moved)
