"""The words for schemes, corpora, arms and regions in rules, verdicts, tables and figures."""

import math

from ln_repro.experiment.name import ArmName

SCHEME_NAMES = {
    "postln": "Post-LN", "preln": "Pre-LN", "deepnorm": "DeepNorm", "rezero": "ReZero", "admin": "Admin",
    "residual": "ResiDual", "b2t": "B2T", "tfixup": "T-Fixup", "periln": "Peri-LN", "lnscale": "LN-Scaling",
    "mixln": "Mix-LN", "normformer": "NormFormer", "subln": "Sub-LN", "hybridnorm": "HybridNorm", "dyt": "DyT",
    "ngpt": "nGPT", "keel": "Keel", "siamesenorm": "SiameseNorm", "derf": "Derf",
    "centred": "Centred Post-LN", "centredfull": "Centred Post-LN of full size", "shrunk": "Shrunk Post-LN",
    "centredforward": "Post-LN, centred forwards", "centredgradient": "Post-LN with centred gradients",
    "shrunksignal": "Further shrunk Post-LN",
}  # fmt: skip
CORPUS_NAMES = {
    "iwslt14": "IWSLT14", "wmt14": "WMT14", "toy": "Toy", "multi30k": "Multi30k", "tatoeba": "Tatoeba",
    "wikinews": "Wikinews", "mrpc": "MRPC", "rte": "RTE",
}  # fmt: skip
"""Display names of corpora, in the order of display, those of the paper's translation experiments first."""
NAMES = {
    **SCHEME_NAMES, "admin_closed": "Admin, closed form", "adam": "Adam", "radam": "RAdam", "sgd": "SGD",
    **CORPUS_NAMES, "masked_lm": "masked LM", "iwslt": "IWSLT14", "iwsltsmall": "IWSLT14, 128 wide",
    "multi30k6": "Multi30k, 6+6 layers",
}  # fmt: skip
"""Display names of norms, optimizers, corpora, tasks and three settings; other words are not changed."""
PARTS = {
    "warm": "with warm-up", "nowarm": "without warm-up", "sgd": "under SGD", "radam": "under RAdam",
    "literal": "(T = 1)", "anchored": "(anchored)", "short": "(an eighth of the ramp)", "fixed": "(small fixed rate)",
    "linear": "(linear decay)", "step": "(step)", "high": "at the higher rate", "low": "at the lower rate",
    "closed": "(closed form)", "encoder": "in the encoder alone", "decoder": "in the decoder alone",
    "burst": "(a tenth of the rate after the first epoch)", "burst16": "(a tenth of the rate after 16 updates)",
    "long": "for three times the epochs",
    "newadam": "with a new Adam", "newencoder": "with a new encoder", "newdecoder": "with a new decoder",
}  # fmt: skip


def parted(name: str) -> tuple[str, str]:
    """Return a setting or corpus and the percentage of the training text in its name: "iwslt-60" is "iwslt" and "60".

    `Record.setting` and `Record.corpus` compose such names. The percentage is "" if it is all of the text.
    """
    whole, _, percent = name.partition("-")
    return (whole, percent) if percent.isdecimal() else (name, "")


def display_name(name: str) -> str:
    """Return the display name of a norm, optimizer, corpus, task or setting, or of several separated by commas.

    That of a part of a corpus says how much it is.
    """
    names = []
    for whole, percent in map(parted, name.split(", ")):
        names.append(NAMES.get(whole, whole))
        if percent:
            names.append(f"{percent} % of the training text")
    return ", ".join(names)


def corpus_order(name: str) -> tuple[int, str]:
    """Return the sort key of a corpus, whose name may be followed by a part or a task; unknown corpora come last."""
    corpora, (corpus, _) = [*CORPUS_NAMES], parted(name.partition(", ")[0])
    return corpora.index(corpus) if corpus in CORPUS_NAMES else len(corpora), name


def arm_words(arm: str) -> str:
    """Return an arm's name in words: `postln_nowarm_literal` is "Post-LN without warm-up (T = 1)"."""
    scheme, parts = ArmName.of(arm)
    return " ".join([SCHEME_NAMES.get(scheme, scheme), *(PARTS.get(part, part) for part in parts)])


def region_words(low: float, high: float) -> str:
    if low == 0 and math.isinf(high):
        return "above 0"
    if math.isinf(low):
        return f"at most {high:.3g}"
    return f"at least {low:.3g}" if math.isinf(high) else f"in [{low:.3g}, {high:.3g}]"
