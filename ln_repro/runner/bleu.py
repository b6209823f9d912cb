"""BLEU scores with signatures that describe how they were computed.

sacreBLEU and sacremoses are imported only when needed, because their import takes a third of a second.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ln_repro.errors import LnReproError
from ln_repro.experiment.settings import Experiment

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

FLAVOURS = ("tokenised", "detokenised")


@dataclass(frozen=True)
class Score:
    """A corpus BLEU in [0, 100] and its signature."""

    score: float
    signature: str


def sacre_bleu(
    hypotheses: Sequence[str], references: Sequence[str], experiment: Experiment, split: str, averaged: int = 1
) -> Score:
    """Score detokenised text with sacreBLEU's tokenisation, ignoring case if the corpus was lower-cased.

    ``averaged`` is the number of epochs whose weights were averaged for decoding.
    """
    return _bleu(_metric(lowercase=experiment.data.lowercase), hypotheses, references, experiment, split, averaged)


def paper_bleu(
    hypotheses: Sequence[str], references: Sequence[str], experiment: Experiment, split: str, averaged: int = 1
) -> Score:
    """Score Moses-tokenised, lower-cased text as fairseq did at the time of the paper."""
    metric = _metric(lowercase=True, tokenize="none", smooth_method="none", force=True)
    return _bleu(metric, hypotheses, references, experiment, split, averaged)


@dataclass(frozen=True)
class Comparison:
    """Two BLEU scores on the same references, and the p-value of their difference."""

    first: float
    second: float
    p_value: float
    samples: int


def paired_bootstrap(
    first: Sequence[str], second: Sequence[str], references: Sequence[str], lowercase: bool, samples: int = 1000
) -> Comparison:
    """Compare detokenised hypotheses by sacreBLEU's paired bootstrap with a fixed seed.

    sacreBLEU counts the samples whose difference is larger than the observed one; if the scores are equal, p is 1.
    """
    from sacrebleu.significance import PairedTest

    systems = [("first", first), ("second", second)]
    test = PairedTest(systems, {"BLEU": _metric(lowercase=lowercase)}, [references], "bs", samples)
    one, other = test()[1]["BLEU"]
    assert not isinstance(one, str) and not isinstance(other, str) and other.p_value is not None
    p_value = 1.0 if one.score == other.score else other.p_value
    return Comparison(round(one.score, 4), round(other.score, 4), p_value, samples)


def detokenise(lines: Sequence[str], language: str) -> list[str]:
    """Detokenise sentences that were tokenised by Moses."""
    from sacremoses import MosesDetokenizer

    moses = MosesDetokenizer(lang=language)
    return [moses.detokenize(line.split()) for line in lines]


def _metric(**options: Any) -> "BLEU":
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(**options)


def _bleu(
    metric: "BLEU", hypotheses: Sequence[str], references: Sequence[str], experiment: Experiment, split: str,
    averaged: int,
) -> Score:  # fmt: skip
    if len(hypotheses) != len(references):
        raise LnReproError(f"{split}: {len(hypotheses)} hypotheses for {len(references)} references")
    score = metric.corpus_score(hypotheses, [references]).score
    search = experiment.eval
    decoding = f"data:{experiment.data.name}/{split}|beam:{search.beam}|lenpen:{search.lenpen:g}|avg:{averaged}"
    return Score(round(score, 4), f"{metric.get_signature().format()}|{decoding}")
