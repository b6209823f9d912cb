"""Figures 2, 4, 5 and 6 of the paper: the arm of each curve and the values that are known.

The curves of figures 2, 4(c), 4(d), 5(b), 5(c) and 6 could not be read; the text gives some values of figures 2 and 6.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Source = Literal["text", "read off", "second hand", "unstated"]
"""How a value was obtained: printed, digitised, from a description of the figure by others, or not available."""
Quantity = Literal["loss", "bleu", "accuracy"]
"""Validation loss in bits per target token (the unit is inferred: 4 nats would not be consistent with 33 BLEU), test
BLEU, or accuracy in per cent."""


@dataclass(frozen=True)
class Reading:
    """Values of a curve that were obtained in the same way.

    Attributes:
        points: value by epoch; empty if there is only a description.
        place: the figure or section of the paper.
        source: how the values were obtained.
        uncertainty: half-width of the uncertainty; None if there are no values.
        words: a remark of the paper or of the reader.
    """

    points: Mapping[int, float]
    place: str
    source: Source
    uncertainty: float | None
    words: str = ""


@dataclass(frozen=True)
class Series:
    """A curve: its arm (`conf/arm`), its label in the legend, and its known values."""

    arm: str
    label: str
    readings: tuple[Reading, ...] = ()


@dataclass(frozen=True)
class Panel:
    """One pair of axes; the x axis is the epoch or, for accuracy, the number of updates of pre-training."""

    title: str
    quantity: Quantity
    series: tuple[Series, ...]
    corpus: str = "iwslt"


@dataclass(frozen=True)
class Figure:
    """A figure: its panels by row.

    Attributes:
        about: the arm that is the subject of the figure, if there is one; without it, the figure is not drawn.
        corpora: the corpora to draw the figure for; empty: all that are translated.
    """

    title: str
    rows: tuple[tuple[Panel, ...], ...]
    about: str = ""
    corpora: tuple[str, ...] = ()


def read_off(points: Mapping[int, float], uncertainty: float = 0.1, words: str = "") -> Reading:
    """Return values digitised from the image of figure 4(b)."""
    return Reading(points, "figure 4(b)", "read off", uncertainty, words)


def second_hand(points: Mapping[int, float], uncertainty: float = 0.05, words: str = "") -> Reading:
    """Return values that others read off figure 4(a)."""
    return Reading(points, "figure 4(a)", "second hand", uncertainty, words)


def in_text(points: Mapping[int, float], uncertainty: float, words: str, place: str = "section 3.2") -> Reading:
    """Return printed values, whose uncertainty is half of the last digit; if no epoch is stated, it is the last one."""
    return Reading(points, place, "text", uncertainty, words)


def by_epoch(*values: float) -> dict[int, float]:
    """Return values at epochs 1, 2, ..."""
    return dict(enumerate(values, 1))


UNKNOWN_RATE = "it is not stated which of the two rates"
STARVED = Reading({}, "section 3.2", "unstated", None, "just above zero in 15 epochs")

ADAM = (
    Series("postln_warm", "w/ warm-up"),
    Series("postln_warm_high", "w/ warm-up, higher rate"),
    Series("postln_warm_short", "w/ short warm-up"),
    Series("postln_warm_short_high", "w/ short warm-up, higher rate"),
    Series("postln_nowarm", "w/o warm-up"),
    Series("postln_nowarm_high", "w/o warm-up, higher rate"),
    Series("postln_nowarm_literal", "w/o, literally T = 1"),
    Series("postln_nowarm_literal_high", "w/o, T = 1, higher rate"),
)
SGD = (
    Series("postln_warm_sgd", "w/ warm-up"),
    Series("postln_warm_sgd_low", "w/ warm-up, lower rate"),
    Series("postln_nowarm_sgd", "w/o warm-up"),
    Series("postln_nowarm_sgd_low", "w/o warm-up, lower rate"),
    Series("postln_nowarm_sgd_literal", "w/o, literally T = 1"),
    Series("postln_nowarm_sgd_low_literal", "w/o, T = 1, lower rate"),
)
FIGURE_2_BLEU = {
    "postln_warm": in_text({15: 34.0}, 0.5, "around 34; " + UNKNOWN_RATE),
    "postln_warm_short": in_text({15: 31.16}, 0.005, "T = 500, rate 5e-4"),
    "postln_warm_short_high": in_text({15: 2.77}, 0.005, "T = 500, rate 1e-3"),
    "postln_nowarm_literal": in_text({15: 8.45}, 0.005, UNKNOWN_RATE),
    "postln_nowarm_sgd_literal": STARVED,
    "postln_nowarm_sgd_low_literal": STARVED,
}


def with_readings(series: tuple[Series, ...], readings: Mapping[str, Reading]) -> tuple[Series, ...]:
    """Return the series with the known values of each arm."""
    return tuple(Series(s.arm, s.label, (readings[s.arm],) if s.arm in readings else ()) for s in series)


FIGURE_2 = Figure(
    "Figure 2: Post-LN by length of the warm-up",
    (
        (Panel("(a) Adam", "loss", ADAM), Panel("(b) SGD", "loss", SGD)),
        (
            Panel("", "bleu", with_readings(ADAM, FIGURE_2_BLEU)),
            Panel("", "bleu", with_readings(SGD, FIGURE_2_BLEU)),
        ),
    ),
)

PRELN_ADAM = "Pre-LN (Adam w/o warm-up)"
POSTLN_ADAM = "Post-LN (Adam w/ warm-up)"
PRELN_RADAM = "Pre-LN (RAdam w/o warm-up)"
POSTLN_RADAM = "Post-LN (RAdam w/o warm-up)"

FIGURE_4_LOSS = (
    Series("preln_nowarm", PRELN_ADAM, (second_hand({1: 6.4, 3: 4.75, 5: 4.35, 7: 4.15, 9: 4.0, 15: 4.0}),)),
    Series("postln_warm", POSTLN_ADAM, (
        second_hand({1: 8.0, 3: 5.6, 5: 4.6, 7: 4.3, 9: 4.2}),
        second_hand({12: 4.0, 15: 4.0}, 0.1, "about 4.0 from epoch 12 on"),
    )),
    Series("preln_nowarm_radam", PRELN_RADAM, (second_hand({1: 6.2, 3: 4.7, 5: 4.3, 7: 4.15, 9: 4.0, 15: 4.0}),)),
    Series("postln_nowarm_radam", POSTLN_RADAM, (second_hand({1: 7.9, 3: 5.9, 5: 4.9, 7: 4.5, 9: 4.35, 15: 4.2}),)),
)  # fmt: skip
FIGURE_4_BLEU = (
    Series("preln_nowarm", PRELN_ADAM, (
        read_off(by_epoch(11.7, 20.7, 25.8, 28.7, 29.9, 30.4, 31.6, 32.0, 33.0, 33.2, 33.3, 33.5, 33.5, 33.3, 33.4)),
    )),
    Series("postln_warm", POSTLN_ADAM, (
        read_off(by_epoch(1.8, 9.2, 17.4, 23.4, 27.0, 28.4, 30.6, 31.2, 31.2, 32.1)),
        read_off({11: 32.8, 12: 32.8, 13: 33.1, 14: 33.1, 15: 33.1}, 0.2, "partly hidden behind other marks"),
    )),
    Series("preln_nowarm_radam", PRELN_RADAM, (
        read_off({1: 10.6, 2: 22.1}, words="from epoch 3 on as with Adam, at most 0.3 above it"),
    )),
    Series("postln_nowarm_radam", POSTLN_RADAM, (
        read_off(by_epoch(1.6, 7.0, 15.9, 21.4, 24.8, 26.6, 28.7, 29.5, 30.1, 31.1, 31.3, 31.7, 32.0, 32.1, 32.1)),
    )),
)  # fmt: skip
FIGURE_4_WMT = (
    Series("preln_nowarm", PRELN_ADAM),
    Series("preln_nowarm_high", "Pre-LN (Adam w/o, higher rate)"),
    Series("postln_warm", POSTLN_ADAM),
    Series("postln_warm_high", "Post-LN (Adam w/, higher rate)"),
)
FIGURE_4 = Figure(
    "Figure 4: Pre-LN without warm-up beside Post-LN with it",
    (
        (Panel("(a) validation loss", "loss", FIGURE_4_LOSS), Panel("(b) BLEU", "bleu", FIGURE_4_BLEU)),
        (
            Panel("(c) validation loss, two rates", "loss", FIGURE_4_WMT, "wmt"),
            Panel("(d) BLEU, two rates", "bleu", FIGURE_4_WMT, "wmt"),
        ),
    ),
)

FIGURE_5 = Figure(
    "Figure 5(b, c): fine-tuning by length of pre-training",
    ((Panel("", "accuracy", (Series("preln_nowarm_linear", "Pre-LN"), Series("postln_nowarm_linear", "Post-LN"))),),),
    corpora=("mrpc", "rte", "minimrpc", "minirte"),
)
"""Figure 5(a), pre-training, is drawn by `ln_repro.report.grids`."""

FIGURE_6 = Figure(
    "Figure 6: Post-LN at a small fixed rate",
    ((Panel("", "loss", (
        Series("postln_nowarm_fixed", "Post-LN, small fixed rate", (
            in_text({27: 4.3}, 0.05, "around 4.3 at epoch 27", "appendix H"),
        )),
        Series("postln_nowarm_high", "Post-LN w/o warm-up, higher rate"),
        Series("postln_nowarm_literal_high", "Post-LN w/o, T = 1, higher rate"),
        Series("postln_warm", "Post-LN w/ warm-up"),
        Series("preln_nowarm", "Pre-LN w/o warm-up"),
    )),),),
    about="postln_nowarm_fixed",
)  # fmt: skip
"""The paper does not state which runs its other two curves are; here they are the last two, one of them its "best"."""

FIGURES = {"figure_2": FIGURE_2, "figure_4": FIGURE_4, "figure_5": FIGURE_5, "figure_6": FIGURE_6}
