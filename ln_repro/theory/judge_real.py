"""Verdicts on the real models at initialisation (paper section 3.4, figure 3)."""

import math
from collections.abc import Sequence
from statistics import fmean

from ln_repro.theory import lemmas
from ln_repro.theory.finding import Finding, Tally, together, verdict
from ln_repro.theory.statistics import (
    Interval,
    exponent_interval,
    hull,
    layer_means,
    mean_interval,
    ratio_interval,
    spearman,
)
from ln_repro.theory.unit import Measured, grouped

SEEDS = 5
"""Draws that a verdict needs at least."""
LAYERS = 6
"""Of the model that is looked at layer by layer: the paper's 6-6."""
FLAT: Interval = (-0.15, 0.15)
RATE: Interval = (-0.65, -0.35)
LEVEL: Interval = (1.4, 1.9)
DELTA = 0.125


def last_layer_post(measured: Measured) -> Finding:
    """TH-6: Post-LN's last gradient does not depend on the depth (figure 3(c))."""
    curves = by_depth(measured, "postln")
    flat, level = exponent_interval(curves), mean_interval([fmean(curve.values()) for curve in curves])
    return Finding(
        "TH-6",
        "Theorem 1, Post-LN: the gradient of the last layer's W2 does not depend on L",
        "around 1.6 for L from 6 to 14",
        depth_means(curves),
        flat,
        f"fitted exponent of L: interval inside {list(FLAT)}; mean over L: interval inside {list(LEVEL)}",
        together([verdict(flat, FLAT), verdict(level, LEVEL)], len(curves), SEEDS),
        len(curves),
    )


def last_layer_pre(measured: Measured) -> Finding:
    """TH-7: Pre-LN's last gradient falls as the inverse square root of the depth (figure 3(d))."""
    curves = by_depth(measured, "preln")
    falling = exponent_interval(curves)
    return Finding(
        "TH-7",
        "Theorem 1, Pre-LN: the gradient of the last layer's W2 falls as L^-1/2",
        "decreases; exponent -1/2",
        depth_means(curves),
        falling,
        f"fitted exponent of L: interval inside {list(RATE)}, embeddings untied",
        together([verdict(falling, RATE)], len(curves), SEEDS),
        len(curves),
    )


def layers_post(measured: Measured) -> Finding:
    """TH-8: Post-LN's gradient grows with the layer (figure 3(a) and 3(b))."""
    curves = by_layer(measured, "postln")
    growth = ratio_interval([curve[-1] / curve[0] for curve in curves])
    order = mean_interval([spearman(range(len(curve)), curve) for curve in curves])
    return Finding(
        "TH-8",
        "Post-LN: the gradient of W2 grows with the layer at initialisation",
        "0.13 to 1.66 over 6 layers, 12.8 times",
        layer_means(curves),
        growth,
        "last layer over first: interval above 4; rank correlation with the layer: interval above 0.9",
        together([verdict(growth, (4.0, math.inf)), verdict(order, (0.9, math.inf))], len(curves), SEEDS),
        len(curves),
    )


def layers_pre(measured: Measured) -> Finding:
    """TH-9: Pre-LN's gradient is almost the same in every layer (figure 3(a) and 3(b))."""
    curves, beside = by_layer(measured, "preln"), by_layer(measured, "postln")
    unevenness = ratio_interval([spread(curve) for curve in curves])
    share = ratio_interval([spread(pre) / spread(post) for pre, post in zip(curves, beside, strict=True)])
    return Finding(
        "TH-9",
        "Pre-LN: the gradient of W2 is almost the same in every layer at initialisation",
        "0.56 to 0.29 over 6 layers, 1.9 times",
        layer_means(curves),
        unevenness,
        "largest over smallest: interval below 2.2; over Post-LN's: interval below 1/3",
        together([verdict(unevenness, (1.0, 2.2)), verdict(share, (0.0, 1 / 3))], len(curves), SEEDS),
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
        "measured over predicted, mean over layers: interval inside [0.96, 1.04]",
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
        f"share of positions more than 0.1 above their model's mean: interval below {DELTA} in every layer",
        SEEDS,
    )


def by_depth(measured: Measured, norm: str, tied: bool = False) -> list[dict[int, float]]:
    """Return the W2 gradient of the last decoder layer by depth, one curve a seed."""
    curves: dict[int, dict[int, float]] = {}
    for (layers,), group in grouped(measured, "real_gradients", "layers", norm=norm, tied=tied).items():
        for unit, found in group:
            curves.setdefault(unit.seed, {})[layers] = found["norm_of_mean"]["decoder.w2"][-1]
    return list(curves.values())


def by_layer(measured: Measured, norm: str, weight: str = "decoder.w2") -> list[list[float]]:
    """Return the gradient of a kind of weight in each layer of the 6-6 model, one curve a seed."""
    groups = grouped(measured, "real_gradients", "layers", norm=norm, tied=False)
    return [found["norm_of_mean"][weight] for _, found in groups.get((LAYERS,), [])]


def hidden(measured: Measured, norm: str, name: str) -> dict[tuple[int, int, str], list[list[float]]]:
    """Return, by d, d_ff and stack, what was measured of the hidden states in each layer, one curve a seed."""
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
