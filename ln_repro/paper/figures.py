"""The paper's figures: the values of figure 3; of figures 2, 4, 5 and 6, the arm of each curve and the known values.

The curves of figures 2, 3(c), 3(d), 4(c), 4(d), 5(b), 5(c) and 6 could not be read; the text gives some values of
figures 2, 3(c) and 6.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Quantity = Literal["loss", "bleu", "accuracy"]
"""Validation loss in bits per target token (the unit is inferred: 4 nats would not be consistent with 33 BLEU), test
BLEU, or accuracy in per cent."""


@dataclass(frozen=True)
class Reading:
    """Values of a curve by epoch, and the half-width of their uncertainty: for printed ones, half of the last digit."""

    points: Mapping[int, float]
    uncertainty: float


@dataclass(frozen=True)
class Panel:
    """One pair of axes; the x axis is the epoch or, for accuracy, the number of updates of pre-training."""

    title: str
    quantity: Quantity
    arms: Mapping[str, str]  # the label of each curve in the legend, by arm (`conf/arm`)
    readings: Mapping[str, tuple[Reading, ...]] = field(default_factory=dict)  # the known values, by arm
    corpus: str = "iwslt"


@dataclass(frozen=True)
class Figure:
    """A figure: its panels by row."""

    title: str
    rows: tuple[tuple[Panel, ...], ...]
    about: str = ""  # the arm that is its subject, if there is one; without a run of it, the figure is not drawn
    corpora: tuple[str, ...] = ()  # those to draw it for; empty: all that are translated


def by_epoch(*values: float) -> dict[int, float]:
    """Return values at epochs 1, 2, ..."""
    return dict(enumerate(values, 1))


ADAM = {
    "postln_warm": "w/ warm-up",
    "postln_warm_high": "w/ warm-up, higher rate",
    "postln_warm_short": "w/ short warm-up",
    "postln_warm_short_high": "w/ short warm-up, higher rate",
    "postln_nowarm": "w/o warm-up",
    "postln_nowarm_high": "w/o warm-up, higher rate",
    "postln_nowarm_literal": "w/o warm-up, T = 1",
    "postln_nowarm_literal_high": "w/o warm-up, T = 1, higher rate",
}
SGD = {
    "postln_warm_sgd": "w/ warm-up",
    "postln_warm_sgd_low": "w/ warm-up, lower rate",
    "postln_nowarm_sgd": "w/o warm-up",
    "postln_nowarm_sgd_low": "w/o warm-up, lower rate",
    "postln_nowarm_sgd_literal": "w/o warm-up, T = 1",
    "postln_nowarm_sgd_low_literal": "w/o warm-up, T = 1, lower rate",
}
FIGURE_2_BLEU = {
    "postln_warm": (Reading({15: 34.0}, 0.5),),  # "around 34", without the rate
    "postln_warm_short": (Reading({15: 31.16}, 0.005),),  # T = 500, rate 5e-4
    "postln_warm_short_high": (Reading({15: 2.77}, 0.005),),  # T = 500, rate 1e-3
    "postln_nowarm_literal": (Reading({15: 8.45}, 0.005),),  # without the rate
}
"""Printed in section 3.2, for the last epoch as none is stated. Of SGD it only says "just above zero in 15 epochs"."""
FIGURE_2 = Figure(
    "Figure 2: Post-LN by length of the warm-up",
    (
        (Panel("(a) Adam", "loss", ADAM), Panel("(b) SGD", "loss", SGD)),
        (Panel("", "bleu", ADAM, FIGURE_2_BLEU), Panel("", "bleu", SGD)),
    ),
)

FIGURE_3: dict[str, dict[str, dict[int, float]]] = {
    "a": {
        "preln": {1: 0.22, 2: 0.23, 3: 0.22, 4: 0.18, 5: 0.17, 6: 0.18},
        "postln": {1: 0.06, 2: 0.12, 3: 0.27, 4: 0.37, 5: 0.76, 6: 1.3},
    },
    "b": {
        "preln": {1: 0.558, 2: 0.430, 3: 0.410, 4: 0.369, 5: 0.310, 6: 0.292},
        "postln": {1: 0.13, 2: 0.199, 3: 0.366, 4: 0.577, 5: 1.098, 6: 1.658},
    },
    "c": {"postln": {6: 1.6, 8: 1.6, 10: 1.6, 12: 1.6, 14: 1.6}},
}
"""Frobenius norm of the mean gradient at initialisation, by layer of a 6-6 model (a, b) or by depth (c).

Panel (b) was digitised from the plotted points, panel (a) comes from a second-hand table (+-0.02); for (c), the text
gives "around 1.6" at every depth.
"""

FIGURE_4_ARMS = {
    "preln_nowarm": "Pre-LN (Adam w/o warm-up)",
    "postln_warm": "Post-LN (Adam w/ warm-up)",
    "preln_nowarm_radam": "Pre-LN (RAdam w/o warm-up)",
    "postln_nowarm_radam": "Post-LN (RAdam w/o warm-up)",
}
FIGURE_4_LOSS = {
    "preln_nowarm": (Reading({1: 6.4, 3: 4.75, 5: 4.35, 7: 4.15, 9: 4.0, 15: 4.0}, 0.05),),
    "postln_warm": (
        Reading({1: 8.0, 3: 5.6, 5: 4.6, 7: 4.3, 9: 4.2}, 0.05),
        Reading({12: 4.0, 15: 4.0}, 0.1),  # "about 4.0 from epoch 12 on"
    ),
    "preln_nowarm_radam": (Reading({1: 6.2, 3: 4.7, 5: 4.3, 7: 4.15, 9: 4.0, 15: 4.0}, 0.05),),
    "postln_nowarm_radam": (Reading({1: 7.9, 3: 5.9, 5: 4.9, 7: 4.5, 9: 4.35, 15: 4.2}, 0.05),),
}
"""Second hand: read off figure 4(a) by others."""
FIGURE_4_BLEU = {
    "preln_nowarm": (
        Reading(
            by_epoch(11.7, 20.7, 25.8, 28.7, 29.9, 30.4, 31.6, 32.0, 33.0, 33.2, 33.3, 33.5, 33.5, 33.3, 33.4), 0.1
        ),
    ),
    "postln_warm": (
        Reading(by_epoch(1.8, 9.2, 17.4, 23.4, 27.0, 28.4, 30.6, 31.2, 31.2, 32.1), 0.1),
        Reading({11: 32.8, 12: 32.8, 13: 33.1, 14: 33.1, 15: 33.1}, 0.2),  # partly hidden behind other marks
    ),
    "preln_nowarm_radam": (Reading({1: 10.6, 2: 22.1}, 0.1),),  # from epoch 3 on as with Adam, at most 0.3 above it
    "postln_nowarm_radam": (
        Reading(by_epoch(1.6, 7.0, 15.9, 21.4, 24.8, 26.6, 28.7, 29.5, 30.1, 31.1, 31.3, 31.7, 32.0, 32.1, 32.1), 0.1),
    ),
}
"""Digitised from the image of figure 4(b)."""
FIGURE_4_WMT = {
    "preln_nowarm": "Pre-LN (Adam w/o warm-up)",
    "preln_nowarm_high": "Pre-LN (Adam w/o, higher rate)",
    "postln_warm": "Post-LN (Adam w/ warm-up)",
    "postln_warm_high": "Post-LN (Adam w/, higher rate)",
}
FIGURE_4 = Figure(
    "Figure 4: Pre-LN without warm-up, compared with Post-LN with it",
    (
        (
            Panel("(a) validation loss", "loss", FIGURE_4_ARMS, FIGURE_4_LOSS),
            Panel("(b) BLEU", "bleu", FIGURE_4_ARMS, FIGURE_4_BLEU),
        ),
        (
            Panel("(c) validation loss, two rates", "loss", FIGURE_4_WMT, corpus="wmt"),
            Panel("(d) BLEU, two rates", "bleu", FIGURE_4_WMT, corpus="wmt"),
        ),
    ),
)

FIGURE_5_ARMS = {"preln_nowarm_linear": "Pre-LN", "postln_nowarm_linear": "Post-LN"}
FIGURE_5 = Figure(
    "Figure 5(b, c): fine-tuning by length of pre-training",
    ((Panel("", "accuracy", FIGURE_5_ARMS),),),
    corpora=("mrpc", "rte", "minimrpc", "minirte"),
)
FIGURE_5A_ARMS = {
    "lower rate": {
        "preln_warm_linear": "Pre-LN w/ warm-up", "preln_nowarm_linear": "Pre-LN w/o warm-up",
        "postln_warm_linear": "Post-LN w/ warm-up", "postln_nowarm_linear": "Post-LN w/o warm-up",
    },
    "higher rate": {
        "preln_nowarm_linear_high": "Pre-LN w/o warm-up", "postln_warm_linear_high": "Post-LN w/ warm-up",
    },
}  # fmt: skip
FIGURE_5A = Figure(
    "Figure 5(a): BERT pre-training by rate and warm-up",
    (tuple(Panel(rate, "loss", arms) for rate, arms in FIGURE_5A_ARMS.items()),),
    about="preln_nowarm_linear_high",
    corpora=("toybert", "minibert", "wikinews", "bert"),
)
"""The paper's figure compares Pre-LN without warm-up and Post-LN with it. Its values, by update, are not included."""

FIGURE_6_ARMS = {
    "postln_nowarm_fixed": "Post-LN, small fixed rate",
    "postln_nowarm_high": "Post-LN w/o warm-up, higher rate",
    "postln_nowarm_literal_high": "Post-LN w/o warm-up, T = 1, higher rate",
    "postln_warm": "Post-LN w/ warm-up",
    "preln_nowarm": "Pre-LN w/o warm-up",
}
FIGURE_6_LOSS = {"postln_nowarm_fixed": (Reading({27: 4.3}, 0.05),)}
"""Printed in appendix H: "around 4.3 at epoch 27"."""
FIGURE_6 = Figure(
    "Figure 6: Post-LN at a small fixed rate",
    ((Panel("", "loss", FIGURE_6_ARMS, FIGURE_6_LOSS),),),
    about="postln_nowarm_fixed",
)
"""The paper's other two curves are Post-LN without warm-up at a large rate, and its best run. It states neither the
rate nor which run is the best; the candidates here are the second and third arm, and the last two."""

FIGURES = {
    "figure_2": FIGURE_2, "figure_4": FIGURE_4, "figure_5": FIGURE_5, "figure_5a": FIGURE_5A, "figure_6": FIGURE_6
}  # fmt: skip
