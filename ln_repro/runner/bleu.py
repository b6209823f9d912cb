"""BLEU scores with signatures that describe how they were computed.

sacreBLEU is imported only when needed, because its import takes a third of a second.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ln_repro.corpus.prepare import folder_of, opened
from ln_repro.errors import LnReproError
from ln_repro.experiment.data import Data, base_code
from ln_repro.experiment.settings import Experiment
from ln_repro.records.record import Record
from ln_repro.system.paths import data_folder

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

FLAVOURS = ("tokenised", "detokenised")
SAMPLES = 1000  # number of samples of a paired bootstrap
TOKENISERS = {
    **dict.fromkeys(("zh", "zho", "cmn", "yue"), "zh"),
    **dict.fromkeys("ja jpn bo bod dz dzo km khm lo lao my mya th tha".split(), "char"),
}
"""sacreBLEU's tokenisers for languages that are written without spaces between words, of which Moses separates none."""


def score(
    flavour: str, hypotheses: Sequence[str], references: Sequence[str], experiment: Experiment, split: str,
    averaged: int = 1, restored: bool = False,
) -> tuple[float, str]:  # fmt: skip
    """Return the corpus BLEU, in [0, 100], of a split and its signature.

    Args:
        flavour: ``detokenised``: plain text with sacreBLEU's tokenisation, ignoring case if the corpus was
            lower-cased; ``tokenised``: Moses-tokenised, lower-cased text, as fairseq did at the time of the paper,
            and in the languages in `TOKENISERS` also with sacreBLEU's tokenisation.
        averaged: number of epochs whose weights were averaged for decoding.
        restored: whether the plain references are not the original text, but detokenised tokens.
    """
    if len(hypotheses) != len(references):
        raise LnReproError(f"{split}: {len(hypotheses)} hypotheses for {len(references)} references")
    metric = _metric(flavour, experiment.data)
    bleu, search = metric.corpus_score(hypotheses, [references]).score, experiment.eval
    refs = "|refs:detokenised" if restored and flavour == "detokenised" else ""
    decoding = f"beam:{search.beam}|lenpen:{search.lenpen:g}|avg:{averaged}"
    return round(bleu, 4), f"{metric.get_signature().format()}|data:{experiment.data.name}/{split}{refs}|{decoding}"


def _metric(flavour: str, data: Data) -> "BLEU":
    from sacrebleu.metrics.bleu import BLEU

    tokeniser = TOKENISERS.get(base_code(data.target_lang))
    if flavour == "detokenised":
        return BLEU(tokenize=tokeniser or "13a", lowercase=data.lowercase)
    return BLEU(tokenize=tokeniser or "none", lowercase=True, smooth_method="none", force=True)


def paired_bootstrap(
    first: Sequence[str], second: Sequence[str], references: Sequence[str], data: Data, samples: int = SAMPLES
) -> tuple[float, float, float]:
    """Return the BLEU of two systems' detokenised hypotheses, and the p-value of their difference.

    This is sacreBLEU's paired bootstrap with a fixed seed, which counts the samples whose difference is larger than the
    observed one; if the scores are equal, p is 1.
    """
    from sacrebleu.significance import PairedTest

    systems = [("first", first), ("second", second)]
    test = PairedTest(systems, {"BLEU": _metric("detokenised", data)}, [references], "bs", samples)
    baseline, system = test()[1]["BLEU"]
    assert not isinstance(baseline, str) and not isinstance(system, str) and system.p_value is not None
    p_value = 1.0 if baseline.score == system.score else system.p_value
    return round(baseline.score, 4), round(system.score, 4), p_value


def translations(record: Record, text: bytes | None) -> tuple[list[str], list[str]] | None:
    """Return the hypotheses of a record, given as text, and their references; None if either is not available.

    Raises:
        LnReproError: the hypotheses are damaged.
    """
    name, fingerprint = record.data.name, record.data.fingerprint
    corpus = opened(folder_of(data_folder(), name, fingerprint), fingerprint)
    if not (corpus and record.bleu.test and text is not None):
        return None
    try:
        hypotheses, references = text.decode("utf-8").split("\n")[:-1], corpus.references("test")
    except UnicodeDecodeError as error:
        raise LnReproError(f"its hypotheses are damaged ({error})") from None
    if len(hypotheses) != len(references):
        raise LnReproError(f"its hypotheses have {len(hypotheses)} lines, the test set {len(references)}")
    return hypotheses, references
