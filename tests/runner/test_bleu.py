"""BLEU against sacreBLEU's own command, called from outside, and the signature that goes with it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ln_repro.errors import LnReproError
from ln_repro.runner.bleu import FLAVOURS, paired_bootstrap, score
from tests.examples import experiment

REFERENCES = [
    "The quick brown fox jumps over the lazy dog .",
    'He said : " it \'s nothing , really . "',
    "A man in a blue shirt is standing on a ladder cleaning a window .",
    "two dogs are running in the park.",
]
HYPOTHESES = [
    "the quick brown fox jumped over the lazy dog .",
    'he said : " it \'s nothing at all . "',
    "A man in a blue shirt stands on a ladder and cleans a window .",
    "two dogs run in the park .",
]


DATA = experiment().data


def by_command(tmp_path: Path, *options: str) -> float:
    """Return the score that the command `sacrebleu` prints."""
    reference, hypothesis = tmp_path / "reference", tmp_path / "hypothesis"
    reference.write_text("\n".join(REFERENCES) + "\n")
    hypothesis.write_text("\n".join(HYPOTHESES) + "\n")
    command = [sys.executable, "-m", "sacrebleu", str(reference), "-i", str(hypothesis), "-b", "-w", "4", *options]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def scored(flavour: str, split: str = "test", averaged: int = 1, **changes: Any) -> tuple[float, str]:
    """Return score and signature of the hypotheses for an experiment with some changes."""
    return score(flavour, HYPOTHESES, REFERENCES, experiment(**changes), split, averaged)


def test_scores_are_those_of_the_sacrebleu_command_and_the_signature_says_how(tmp_path):
    lower, cased = by_command(tmp_path, "-lc"), by_command(tmp_path)
    plain = by_command(tmp_path, "-lc", "--tokenize", "none", "--smooth-method", "none", "--force")
    results = scored("detokenised"), scored("detokenised", data__lowercase=False), scored("tokenised")
    assert [bleu for bleu, _ in results] == [lower, cased, plain] and len({lower, cased, plain}) == 3
    assert "case:mixed" in results[1][1] and {"tok:none", "smooth:none"} <= set(results[2][1].split("|"))

    parts = scored("detokenised", "valid", averaged=3, eval__beam=4, eval__lenpen=0.6)[1].split("|")
    assert {"nrefs:1", "case:lc", "tok:13a", "smooth:exp", "data:toy/valid", "beam:4", "lenpen:0.6"} <= set(parts)
    assert any(part.startswith("version:") for part in parts) and parts[-1] == "avg:3"
    restored = [score(name, HYPOTHESES, REFERENCES, experiment(), "test", restored=True)[1] for name in FLAVOURS]
    assert ["|data:toy/test|refs:detokenised|" in signature for signature in restored] == [False, True]


@pytest.mark.parametrize(("language", "sentence", "tokeniser"), [
    ("zh_TW", "星期一他帶來音樂。", "zh"),
    ("ja", "月曜日に彼は音楽を持ってくる。", "char"),
    ("th", "วันจันทร์เขานำดนตรีมา", "char"),
])  # fmt: skip
def test_a_right_translation_into_a_language_without_spaces_has_a_perfect_score(language, sentence, tokeniser):
    case = experiment(data__target_lang=language)
    for flavour in FLAVOURS:
        perfect, signature = score(flavour, [sentence] * 3, [sentence] * 3, case, "test")
        assert perfect == 100.0 and f"|tok:{tokeniser}|" in signature
        assert 0 < score(flavour, [sentence[:-4]], [sentence], case, "test")[0] < 100
    assert paired_bootstrap([sentence], [sentence], [sentence], case.data, samples=5)[:2] == (100.0, 100.0)


def test_sides_of_different_length_are_never_scored():
    with pytest.raises(LnReproError, match="test: 2 hypotheses for 1 references"):
        score("detokenised", ["a", "b"], ["a"], experiment(), "test")


def test_a_paired_bootstrap_tells_a_difference_from_none():
    references = [f"sentence {number} is about {number * 7} small things" for number in range(60)]
    worse = [line.replace("small", "big") if number % 2 else line for number, line in enumerate(references)]
    first, second, p_value = paired_bootstrap(references, worse, references, DATA, samples=200)
    assert first == 100.0 > second > 50.0
    assert p_value < 0.01
    assert paired_bootstrap(worse, worse, references, DATA, samples=200)[2] > 0.5
