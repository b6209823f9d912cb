"""Verdicts on the real models at initialisation (paper section 3.4, figure 3)."""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from ln_repro.statistics import (
    Interval,
    exponent_interval,
    hull,
    layer_means,
    mean_interval,
    ratio_interval,
    slope,
    spearman,
)
from ln_repro.theory import lemmas
from ln_repro.theory.finding import Finding, Tally
from ln_repro.theory.unit import Measured, grouped
from ln_repro.verdict import near, together, verdict

SEEDS = 5
"""Draws that a verdict needs at least."""
LAYERS = 6
"""Of the model that is looked at layer by layer: the paper's 6-6."""
FIGURE_3 = ("decoder.w2", "decoder.w1")
FLAT: Interval = (-0.15, 0.15)
RATE: Interval = (-0.65, -0.35)
LEVEL: Interval = (1.4, 1.9)
DELTA = 0.125
ATTENTIONS = {"encoder": 1, "decoder": 2}
"""Of a layer: each adds at most d to norm^2 of the stream."""


def last_layer_post(measured: Measured) -> Finding:
    """TH-6: Post-LN's last gradient does not depend on the depth (figure 3(c))."""
    curves = by_depth(measured, "postln")
    flat, level = exponent_interval(curves), mean_interval([fmean(curve.values()) for curve in curves])
    return Finding(
        "TH-6",
        "Theorem 1, Post-LN: the gradient of the last layer's W2 does not depend on L",
        "exponent 0; around 1.6 for L from 6 to 14",
        depth_means(curves),
        "exponent of L",
        flat,
        f"fitted exponent of L: interval inside {list(FLAT)}; mean over L: interval inside {list(LEVEL)}",
        together([verdict(flat, FLAT), verdict(level, LEVEL)], len(curves), SEEDS),
        len(curves),
    )


def last_layer_pre(measured: Measured) -> Finding:
    """TH-7: Pre-LN's last gradient falls as the inverse square root of the depth (figure 3(d))."""
    return falls_with_depth(by_depth(measured, "preln"), "TH-7", "embeddings untied")


def last_layer_pre_tied(measured: Measured) -> Finding:
    """TH-7-tied: the same where the softmax shares the embeddings' matrix.

    The stream still contains the input's embedding, so that a tied softmax favours the token it has just read.
    """
    return falls_with_depth(by_depth(measured, "preln", tied=True), "TH-7-tied", "one matrix for all embeddings")


def falls_with_depth(curves: Sequence[dict[int, float]], id: str, embeddings: str) -> Finding:
    """Judge Theorem 1's rate for Pre-LN."""
    falling = exponent_interval(curves)
    return Finding(
        id,
        f"Theorem 1, Pre-LN: the gradient of the last layer's W2 falls as L^-1/2; {embeddings}",
        "decreases; exponent -1/2",
        depth_means(curves),
        "exponent of L",
        falling,
        f"fitted exponent of L: interval inside {list(RATE)}",
        together([verdict(falling, RATE)], len(curves), SEEDS),
        len(curves),
    )


def layers_post(measured: Measured) -> Finding:
    """TH-8: Post-LN's gradient grows with the layer (figure 3(a) and 3(b)); the numbers are W2's."""
    intervals, parts = [], []
    for weight in FIGURE_3:
        curves = by_layer(measured, "postln", weight)
        intervals.append(ratio_interval([curve[-1] / curve[0] for curve in curves]))
        order = mean_interval([spearman(range(len(curve)), curve) for curve in curves])
        parts += [verdict(intervals[-1], (4.0, math.inf)), verdict(order, (0.9, math.inf))]
    return Finding(
        "TH-8",
        "Post-LN: the gradients of W1 and W2 grow with the layer at initialisation",
        "over 6 layers 12.8 times (W2), 22 (W1)",
        layer_means(by_layer(measured, "postln")),
        "last / first layer",
        hull(intervals),
        "last layer over first: interval above 4; rank correlation with the layer: interval above 0.9; W1 and W2",
        together(parts, len(curves), SEEDS),
        len(curves),
    )


def layers_pre(measured: Measured) -> Finding:
    """TH-9: Pre-LN's gradient is almost the same in every layer (figure 3(a) and 3(b)); the numbers are W2's."""
    intervals, parts = [], []
    for weight in FIGURE_3:
        curves, beside = by_layer(measured, "preln", weight), by_layer(measured, "postln", weight)
        intervals.append(ratio_interval([spread(curve) for curve in curves]))
        share = ratio_interval([spread(pre) / spread(post) for pre, post in zip(curves, beside, strict=True)])
        parts += [verdict(intervals[-1], (1.0, 2.2)), verdict(share, (0.0, 1 / 3))]
    return Finding(
        "TH-9",
        "Pre-LN: the gradients of W1 and W2 are almost the same in every layer at initialisation",
        "over 6 layers 1.9 times (W2), 1.4 (W1)",
        layer_means(by_layer(measured, "preln")),
        "largest / smallest",
        hull(intervals),
        "largest over smallest: interval below 2.2; over Post-LN's: interval below 1/3; W1 and W2",
        together(parts, len(curves), SEEDS),
        len(curves),
    )


def stream_post(measured: Measured) -> Finding:
    """TH-2-real: Post-LN's stream before a layer's last norm has the size that the feed-forward's width gives it."""
    tally = Tally()
    for (d, d_ff, stack), curves in hidden(measured, "postln", "squared").items():
        expected = lemmas.post_square(d, d_ff)
        interval = mean_interval([fmean(curve) / expected for curve in curves])
        values = {"expected": expected, "by layer": layer_means(curves), "measured over expected": interval}
        tally.add(stack, values, interval, [verdict(interval, (0.96, 1.04))], len(curves))
    return tally.finding(
        "TH-2-real",
        "Lemma 2, Post-LN, real model: E norm^2 of x5 is (1 + c) d, c = 2 d d_ff / (d + d_ff)^2",
        "3/2 d where d_ff is d",
        "over predicted",
        "measured over predicted, mean over layers: interval inside [0.96, 1.04]",
        SEEDS,
    )


def stream_pre(measured: Measured) -> Finding:
    """TH-3-real: Pre-LN's stream grows linearly, by what the feed-forward and one or two attentions can add."""
    tally = Tally()
    for (d, d_ff, stack), curves in hidden(measured, "preln", "squared").items():
        share, attentions = lemmas.feed_forward_share(d, d_ff), ATTENTIONS[stack]
        starts = hidden(measured, "preln", "input")[d, d_ff, stack]
        added = [[square - start for square in curve] for curve, start in zip(curves, starts, strict=True)]
        interval = mean_interval([slope(curve) for curve in curves])
        parts = [verdict(interval, (share, share + attentions))]
        for passed, of_layer in enumerate(zip(*added, strict=True), 1):
            parts.append(near(of_layer, lemmas.pre_bounds(passed, d, d_ff, 0.0, attentions)))
        values = {"bounds on the slope": [share, share + attentions], "slope": interval,
                  "input": fmean(starts), "by layer": layer_means(curves)}  # fmt: skip
        tally.add(stack, values, interval, parts, len(curves))
    return tally.finding(
        "TH-3-real",
        "Lemma 2, Pre-LN, real model: a layer adds c d to (c + a) d to E norm^2, a = 1 (encoder) or 2 (decoder)",
        "1/2 d to 3/2 d where d_ff is d and a is 1",
        "slope on l",
        "slope on l: interval inside [c, c + a]; every layer within 4 standard errors of its bounds above the input",
        SEEDS,
    )


def boundedness_real(measured: Measured) -> Finding:
    """TH-5: the norms of the real model's hidden states concentrate."""
    tally = Tally()
    for norm in ("postln", "preln"):
        for name in ("above", "above_squared"):
            for (_, _, stack), curves in hidden(measured, norm, name).items():
                layers = [mean_interval(of_layer) for of_layer in zip(*curves, strict=True)]
                parts = [verdict(interval, (-math.inf, DELTA)) for interval in layers]
                values = {"by layer": layer_means(curves)}
                tally.add(f"{norm} {stack} {'norm' if name == 'above' else 'norm^2'}", values, hull(layers), parts,
                          len(curves))  # fmt: skip
    return tally.finding(
        "TH-5",
        "Norm and norm^2 of hidden states are (0.1, 0.125)-bounded in an initialised model",
        "(0.1, 0.125)",
        "share above 1.1 E",
        f"share of positions more than 0.1 above their model's mean: interval below {DELTA} in every layer",
        SEEDS,
    )


def by_depth(measured: Measured, norm: str, tied: bool = False) -> list[dict[int, float]]:
    """Return the W2 gradient of the last decoder layer by depth, one curve a seed."""
    curves: dict[int, dict[int, float]] = {}
    for (layers,), group in grouped(measured, "real_last_gradient", "layers", norm=norm, tied=tied).items():
        for unit, found in group:
            curves.setdefault(unit.seed, {})[layers] = found["norm_of_mean"]["decoder.w2"][-1]
    return list(curves.values())


def by_layer(measured: Measured, norm: str, weight: str = "decoder.w2") -> list[list[float]]:
    """Return the gradient of a kind of weight in each layer of the 6-6 model, one curve a seed."""
    groups = grouped(measured, "real_gradients", "layers", norm=norm, tied=False)
    return [found["norm_of_mean"][weight] for _, found in groups.get((LAYERS,), [])]


def hidden(measured: Measured, norm: str, name: str) -> dict[tuple[int, int, str], list[Any]]:
    """Return, by d, d_ff and stack, what was measured of the hidden states: a curve, or one number, a seed."""
    groups = grouped(measured, "real_hidden_states", "width", "ffn", norm=norm)
    return {
        (width, ffn, stack): [found[stack][name] for _, found in group]
        for (width, ffn), group in groups.items()
        for stack in ("encoder", "decoder")
    }


def depth_means(curves: Sequence[dict[int, float]]) -> dict[str, float]:
    """Return the mean over seeds by depth."""
    return {str(depth): fmean(curve[depth] for curve in curves) for depth in sorted(curves[0])}


def spread(curve: Sequence[float]) -> float:
    """Return the largest over the smallest."""
    return max(curve) / min(curve)
