"""BLEU, always with its signature: no score is printed without saying what was compared and how.

What counts and detokenises is imported when there is something to score: it takes a third of a second.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ln_repro.errors import LnReproError
from ln_repro.experiment.settings import Experiment

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

FLAVOURS = ("tokenised", "detokenised")


@dataclass(frozen=True)
class Score:
    """A corpus BLEU in [0, 100] and what it means."""

    score: float
    signature: str

    def as_dict(self) -> dict[str, Any]:
        """Return both, as records store them."""
        return asdict(self)


def sacre_bleu(
    hypotheses: Sequence[str], references: Sequence[str], experiment: Experiment, split: str, averaged: int = 1
) -> Score:
    """Score detokenised text with sacreBLEU's own tokenisation, case ignored if the corpus was lower-cased.

    ``averaged`` is the number of epochs whose mean weights made the hypotheses.
    """
    return _bleu(_metric(lowercase=experiment.data.lowercase), hypotheses, references, experiment, split, averaged)


def paper_bleu(
    hypotheses: Sequence[str], references: Sequence[str], experiment: Experiment, split: str, averaged: int = 1
) -> Score:
    """Score Moses-tokenised, lower-cased text as it is: what fairseq's scorer gave in the paper's time."""
    metric = _metric(lowercase=True, tokenize="none", smooth_method="none", force=True)
    return _bleu(metric, hypotheses, references, experiment, split, averaged)


@dataclass(frozen=True)
class Comparison:
    """Two corpus BLEUs over the same references, and how probable so large a difference is by chance."""

    first: float
    second: float
    p_value: float
    samples: int


def paired_bootstrap(
    first: Sequence[str], second: Sequence[str], references: Sequence[str], lowercase: bool, samples: int = 1000
) -> Comparison:
    """Compare detokenised hypotheses by sacreBLEU's own paired bootstrap; its seed is fixed.

    It counts the samples whose difference is larger than the observed one, and so would call equal scores different.
    """
    from sacrebleu.significance import PairedTest

    systems = [("first", first), ("second", second)]
    test = PairedTest(systems, {"BLEU": _metric(lowercase=lowercase)}, [references], "bs", samples)
    one, other = test()[1]["BLEU"]
    assert not isinstance(one, str) and not isinstance(other, str) and other.p_value is not None
    p_value = 1.0 if one.score == other.score else other.p_value
    return Comparison(round(one.score, 4), round(other.score, 4), p_value, samples)


def detokenise(lines: Sequence[str], language: str) -> list[str]:
    """Undo Moses tokenisation, one sentence a line."""
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
