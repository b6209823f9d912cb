"""The figures of our grids (`conf/grid`), with a column per optimizer or schedule and rows for loss and BLEU."""

from collections.abc import Mapping

from ln_repro.claims.words import SCHEMES as NORMS
from ln_repro.paper.figures import Figure, Panel, curves

PRETRAINED = ("toybert", "minibert", "wikinews", "bert")
"""Settings of BERT pre-training, for which BLEU does not exist."""


def label(arm: str) -> str:
    """Return the label of an arm: norm placement and warm-up; optimizer and rate are in the heading of the column."""
    norm, warmup, *rest = arm.split("_")
    if "literal" in rest:
        return f"{NORMS[norm]} w/o, literally T = 1"
    closed, short = ", closed form," * ("closed" in rest), "short " * ("short" in rest)
    return f"{NORMS[norm]}{closed} {'w/' if warmup == 'warm' else 'w/o'} {short}warm-up"


def panels(columns: Mapping[str, str], notes: Mapping[str, str], bleu: bool = True) -> tuple[tuple[Panel, ...], ...]:
    """Return the rows of a figure, from the arms by heading of the column, separated by spaces.

    ``notes`` are additions to the labels of arms that differ from their column in more than norm and warm-up.
    """
    series = {heading: curves({arm: label(arm) + notes.get(arm, "") for arm in arms.split()})
              for heading, arms in columns.items()}  # fmt: skip
    losses = tuple(Panel(heading, "loss", of_column) for heading, of_column in series.items())
    return (losses, *[tuple(Panel("", "bleu", of_column) for of_column in series.values())] * bleu)


DESIGN = {
    "Adam": "preln_warm preln_nowarm_anchored postln_warm postln_nowarm",
    "SGD": "preln_warm_sgd preln_nowarm_sgd postln_warm_sgd postln_nowarm_sgd",
    "RAdam": "preln_warm_radam preln_nowarm_radam_anchored postln_warm_radam postln_nowarm_radam_anchored",
}
SECTION3_2 = {
    "Adam": "postln_warm postln_warm_short postln_nowarm postln_nowarm_literal",
    "Adam, higher rate": "postln_warm_high postln_warm_short_high postln_nowarm_high postln_nowarm_literal_high",
    "Adam, small fixed rate": "postln_nowarm_fixed",
    "SGD": "postln_warm_sgd postln_nowarm_sgd postln_nowarm_sgd_literal",
    "SGD, lower rate": "postln_warm_sgd_low postln_nowarm_sgd_low postln_nowarm_sgd_low_literal",
}
SECTION4 = {
    "inverse square root": "preln_warm preln_nowarm_anchored preln_nowarm_literal postln_warm",
    "step": "preln_nowarm preln_nowarm_radam_step postln_warm_step postln_nowarm_step",
    "linear": "preln_nowarm_radam postln_nowarm_radam postln_nowarm_linear",
}
SCHEMES = {
    "with warm-up": "postln_warm postln_warm_high postln_warm_short deepnorm_warm admin_warm admin_warm_closed",
    "without warm-up": "preln_nowarm_anchored deepnorm_nowarm rezero_nowarm rezero_nowarm_step admin_nowarm",
    "without warm-up, higher rate": (
        "preln_nowarm_anchored_high deepnorm_nowarm_high rezero_nowarm_high admin_nowarm_high"
    ),
}
BERT = {
    "lower rate": "preln_warm_linear preln_nowarm_linear postln_warm_linear postln_nowarm_linear",
    "higher rate": "preln_nowarm_linear_high postln_warm_linear_high",
}
RADAM = dict.fromkeys(("preln_nowarm_radam_step", "preln_nowarm_radam", "postln_nowarm_radam"), ", RAdam")
GRIDS = {
    "design": Figure("The same decay with and without warm-up", panels(DESIGN, {})),
    "section3_2": Figure("Section 3.2: Post-LN by optimizer and rate", panels(SECTION3_2, {})),
    "section4": Figure("Section 4 and its controls: placement by decay", panels(SECTION4, RADAM)),
    "schemes": Figure(
        "What followed: schemes with and without warm-up",
        panels(SCHEMES, {"postln_warm_high": ", higher rate", "rezero_nowarm_step": ", step"}),
        about="deepnorm_nowarm",
    ),
    "bert": Figure(
        "Section 4.1: BERT's task by rate and warm-up",
        panels(BERT, {}, bleu=False),
        about="preln_nowarm_linear_high",
        corpora=PRETRAINED,
    ),
}
