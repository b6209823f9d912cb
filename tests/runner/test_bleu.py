"""BLEU against sacreBLEU's own command, called from outside, and the signature that goes with it."""

import subprocess
import sys
from pathlib import Path

import pytest

from ln_repro.errors import LnReproError
from ln_repro.runner.bleu import detokenise, paired_bootstrap, paper_bleu, sacre_bleu
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


def by_command(tmp_path: Path, *options: str) -> float:
    """Return the score that the command `sacrebleu` prints."""
    reference, hypothesis = tmp_path / "reference", tmp_path / "hypothesis"
    reference.write_text("\n".join(REFERENCES) + "\n")
    hypothesis.write_text("\n".join(HYPOTHESES) + "\n")
    command = [sys.executable, "-m", "sacrebleu", str(reference), "-i", str(hypothesis), "-b", "-w", "4", *options]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_both_scores_are_those_of_the_sacrebleu_command(tmp_path: Path) -> None:
    run = experiment()
    assert sacre_bleu(HYPOTHESES, REFERENCES, run, "test").score == by_command(tmp_path, "-lc")
    cased = experiment(data__lowercase=False)
    assert sacre_bleu(HYPOTHESES, REFERENCES, cased, "test").score == by_command(tmp_path)
    plain = by_command(tmp_path, "-lc", "--tokenize", "none", "--smooth-method", "none", "--force")
    assert paper_bleu(HYPOTHESES, REFERENCES, run, "test").score == plain
    assert len({by_command(tmp_path, "-lc"), by_command(tmp_path), plain}) == 3
    assert paper_bleu([""] * 4, REFERENCES, run, "test").score == 0.0


def test_a_score_says_what_was_compared_and_how() -> None:
    run = experiment(eval__beam=4, eval__lenpen=0.6)
    found = sacre_bleu(HYPOTHESES, REFERENCES, run, "valid")
    parts = found.signature.split("|")
    assert {"nrefs:1", "case:lc", "tok:13a", "smooth:exp", "data:toy/valid", "beam:4", "lenpen:0.6"} <= set(parts)
    assert any(part.startswith("version:") for part in parts)
    assert parts[-1] == "avg:1"
    assert sacre_bleu(HYPOTHESES, REFERENCES, run, "test", 3).signature.endswith("|avg:3")
    assert paper_bleu(HYPOTHESES, REFERENCES, run, "test", 3).signature.endswith("|avg:3")
    assert {"tok:none", "smooth:none"} <= set(paper_bleu(HYPOTHESES, REFERENCES, run, "test").signature.split("|"))
    assert "case:mixed" in sacre_bleu(HYPOTHESES, REFERENCES, experiment(data__lowercase=False), "test").signature


def test_detokenised_text_reads_as_it_was_written() -> None:
    tokenised = ["he said : &quot; it &apos;s nothing , really . &quot;", "", "i don &apos;t know ( yet ) ."]
    assert detokenise(tokenised, "en") == ['he said: "it\'s nothing, really."', "", "i don't know (yet)."]


def test_sides_of_different_length_are_never_scored() -> None:
    with pytest.raises(LnReproError, match="test: 2 hypotheses for 1 references"):
        sacre_bleu(["a", "b"], ["a"], experiment(), "test")


def test_a_paired_bootstrap_tells_a_difference_from_none() -> None:
    references = [f"sentence {number} is about {number * 7} small things" for number in range(60)]
    worse = [line.replace("small", "big") if number % 2 else line for number, line in enumerate(references)]
    found = paired_bootstrap(references, worse, references, lowercase=True, samples=200)
    assert found.first == 100.0 > found.second > 50.0
    assert found.p_value < 0.01
    assert paired_bootstrap(worse, worse, references, lowercase=True, samples=200).p_value > 0.5
