"""Verdicts on Lemmas 1 to 3 and on the boundedness of hidden states, from measurements of the simplified model."""

import math
from collections.abc import Sequence
from statistics import fmean

from ln_repro.statistics import Interval, layer_means, mean_interval, slope
from ln_repro.theory import lemmas
from ln_repro.theory.finding import Finding, Tally
from ln_repro.theory.unit import Measured, grouped
from ln_repro.verdict import INCONCLUSIVE, near, verdict

PAPER_WIDTH = 512
"""Width of the model in which the paper found the norms to be bounded."""
DELTA = 0.125


def lemma_1(measured: Measured) -> Finding:
    """TH-1: the second moment of a ReLU."""
    tally = Tally()
    for (d, sigma, numbers), group in grouped(measured, "relu", "d", "sigma", "numbers").items():
        ratios = [measurement["ratio"] for _, measurement in group]
        reach = 4 * lemmas.relu_error(numbers)
        interval = mean_interval(ratios)
        values = {"mean": fmean(ratios), "interval": interval, "reach": reach}
        tally.add(f"d={d} sigma={sigma}", values, interval, [verdict(interval, (1 - reach, 1 + reach))], len(group))
    return tally.finding(
        "TH-1",
        "Lemma 1: E norm^2 of ReLU(X) is sigma^2 d / 2 for X ~ N(0, sigma^2 I)",
        "sigma^2 d / 2",
        "over predicted",
        "the interval of measured over predicted lies within 4 standard errors of a single draw's mean around 1",
        minimum=10,
    )


def lemma_2_post(measured: Measured) -> Finding:
    """TH-2: Post-LN's stream before a layer's last norm has the same size in every layer."""
    tally = Tally()
    for (d, d_ff, positions), curves in _curves(measured, "square", norm="postln").items():
        expected = lemmas.post_square(d, d_ff)
        interval = mean_interval([fmean(curve) / expected for curve in curves])
        slopes = [slope(curve) for curve in curves]
        parts = [verdict(interval, (0.98, 1.02)), near(slopes, (0, 0))]
        parts += [near(of_layer, (expected, expected)) for of_layer in _by_layer(curves)]
        values = {"expected": expected, "by layer": layer_means(curves), "measured over expected": interval,
                  "slope": mean_interval(slopes)}  # fmt: skip
        tally.add(_label(d, d_ff, positions), values, interval, parts, len(curves))
    return tally.finding(
        "TH-2",
        "Lemma 2, Post-LN: E norm^2 of x5 is 3/2 d in every layer; (1 + c) d if d_ff is not d",
        "3/2 d for every l",
        "over predicted",
        "measured over predicted, mean over layers: interval inside [0.98, 1.02]; every layer within 4 standard errors "
        "of the prediction, and the slope on l within 4 of 0",
        minimum=20,
    )


def lemma_2_pre(measured: Measured) -> Finding:
    """TH-3: Pre-LN's stream grows linearly with the layers passed."""
    tally = Tally()
    for (d, d_ff, positions), curves in _curves(measured, "square", norm="preln").items():
        share, first = lemmas.feed_forward_share(d, d_ff), lemmas.pre_first(d, d_ff, positions)
        interval = mean_interval([slope(curve) for curve in curves])
        layers = _by_layer(curves)
        parts = [verdict(interval, (share, share + 1)), near(layers[0], (first, first))]
        parts += [near(of_layer, lemmas.pre_bounds(passed, d, d_ff)) for passed, of_layer in enumerate(layers, 1)]
        values = {"bounds on the slope": [share, share + 1], "slope": interval, "first": first,
                  "by layer": layer_means(curves)}  # fmt: skip
        tally.add(_label(d, d_ff, positions), values, interval, parts, len(curves))
    return tally.finding(
        "TH-3",
        "Lemma 2, Pre-LN: E norm^2 after l layers is between (1 + l/2) d and (1 + 3l/2) d; c for 1/2 if d_ff is not d",
        "(1 + l/2) d to (1 + 3l/2) d",
        "slope on l",
        "slope on l: interval inside [c, c + 1]; every layer within 4 standard errors of its bounds, and the first "
        "within 4 of 1 + c + 1/n",
        minimum=20,
    )


def lemma_3(measured: Measured) -> Finding:
    """TH-4: the Jacobian of the layer norm. What is an identity has to hold in every draw."""
    tally = Tally()
    for (d,), group in grouped(measured, "jacobian", "d").items():
        drawn = {name: [measurement[name] for _, measurement in group] for name in group[0][1]}
        interval = mean_interval(drawn["bound"])
        parts = [
            verdict(_span(drawn["error"]), (0, 1e-10)),
            verdict(_span(drawn["exact"]), (1 - 1e-8, 1 + 1e-8)),
            verdict(_span(drawn["scaling"]), (0, 1e-10)),
            verdict((min(drawn["bound"]), interval[1]), (1 - 1e-8, 1.05)),
        ]
        values = {name: _span(drawn[name]) for name in ("error", "exact", "scaling")} | {"bound": interval}
        tally.add(f"d={d}", values, interval, parts, len(group))
    return tally.finding(
        "TH-4",
        "Lemma 3: the spectral norm of the layer norm's Jacobian is O(sqrt(d) / norm of x)",
        "O(sqrt(d) / norm of x)",
        "norm / bound",
        "in every draw autograd and closed form agree to 1e-10, J(s x) s and J(x) to 1e-10, and the spectral norm is "
        "sqrt(d) / norm of y to 1e-8; over sqrt(d) / norm of x it is at least 1, and for Gaussian x the interval ends "
        "below 1.05",
        minimum=10,
    )


def boundedness(measured: Measured) -> Finding:
    """TH-5-simplified: norms of hidden states concentrate, and more so in wide models: only the paper's width tells."""
    tally = Tally()
    judged = max((unit["d"] for unit, _ in measured if unit.what == "hidden_norms"), default=0)
    for norm in ("postln", "preln"):
        for name in ("share", "share_square"):
            for (d, d_ff, positions), curves in _curves(measured, name, norm=norm).items():
                layers = _by_layer(curves)
                intervals = [mean_interval(of_layer) for of_layer in layers]
                worst = max(range(len(layers)), key=lambda at: fmean(layers[at]))
                values = {"largest share": fmean(layers[worst]), "interval": intervals[worst], "layer": worst + 1}
                label = f"{norm} {'norm' if name == 'share' else 'norm^2'} {_label(d, d_ff, positions)}"
                parts = [verdict(interval, (-math.inf, DELTA)) for interval in intervals]
                if d == judged:
                    wide = parts if d >= PAPER_WIDTH else [INCONCLUSIVE]
                    tally.add(label, values, intervals[worst], wide, len(curves))
                else:
                    tally.values[label] = values
    return tally.finding(
        "TH-5-simplified",
        "Norm and norm^2 of hidden states are (0.1, 0.125)-bounded in the simplified model",
        "(0.1, 0.125)",
        "share above 1.1 E",
        f"share of positions more than 0.1 above their model's mean: interval below {DELTA} in every layer; d >= 512",
        minimum=10,
    )


def _curves(measured: Measured, name: str, norm: str) -> dict[tuple[int, int, int], list[list[float]]]:
    """Return, by d, d_ff and positions, what was measured in every layer, one list a draw."""
    groups = grouped(measured, "hidden_norms", "d", "d_ff", "positions", norm=norm)
    return {(d, d_ff, n): [found[name] for _, found in group] for (d, d_ff, n), group in groups.items()}


def _by_layer(curves: Sequence[Sequence[float]]) -> list[tuple[float, ...]]:
    return list(zip(*curves, strict=True))


def _span(values: Sequence[float]) -> Interval:
    return min(values), max(values)


def _label(d: int, d_ff: int, positions: int) -> str:
    return f"d={d} d_ff={d_ff} n={positions}"
