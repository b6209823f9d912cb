"""BLEU, always with its signature: no score is printed without saying what was compared and how."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacremoses import MosesDetokenizer

from ln_repro.errors import LnReproError
from ln_repro.experiment import Experiment

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
    return _bleu(BLEU(lowercase=experiment.data.lowercase), hypotheses, references, experiment, split, averaged)


def paper_bleu(
    hypotheses: Sequence[str], references: Sequence[str], experiment: Experiment, split: str, averaged: int = 1
) -> Score:
    """Score Moses-tokenised, lower-cased text as it is: what fairseq's scorer gave in the paper's time."""
    metric = BLEU(lowercase=True, tokenize="none", smooth_method="none", force=True)
    return _bleu(metric, hypotheses, references, experiment, split, averaged)


def detokenise(lines: Sequence[str], language: str) -> list[str]:
    """Undo Moses tokenisation, one sentence a line."""
    moses = MosesDetokenizer(lang=language)
    return [moses.detokenize(line.split()) for line in lines]


def _bleu(
    metric: BLEU, hypotheses: Sequence[str], references: Sequence[str], experiment: Experiment, split: str,
    averaged: int,
) -> Score:  # fmt: skip
    if len(hypotheses) != len(references):
        raise LnReproError(f"{split}: {len(hypotheses)} hypotheses for {len(references)} references")
    score = metric.corpus_score(hypotheses, [references]).score
    search = experiment.eval
    decoding = f"data:{experiment.data.name}/{split}|beam:{search.beam}|lenpen:{search.lenpen:g}|avg:{averaged}"
    return Score(round(score, 4), f"{metric.get_signature().format()}|{decoding}")
