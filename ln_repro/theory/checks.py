"""The table of checks that the printed rules and the verdicts of the theory's claims are derived from."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean, geometric_mean

from ln_repro.claims.intervals import LINEAR, LOG, Interval, Scale, exponent, mean_ratio, slope
from ln_repro.claims.rules.th import EXPLANATION, GROWTH
from ln_repro.system.files import Json
from ln_repro.theory import lemmas
from ln_repro.theory.unit import Measured, Unit

Curve = Sequence[float]  # one value per layer
Quantity = Callable[[Measured], Curve]
"""Computes one number, or one per layer if all layers are judged, from the measurements of one seed under one setting.

There is only one measurement unless depths or norm placements are compared."""
ATTENTIONS = {"encoder": 1, "decoder": 2}
"""Number of attentions per layer, by stack; each adds at most d to norm^2 of the stream."""


def number(name: str) -> Quantity:
    return lambda measured: [measured[0][1][name]]


def gradients(weight: str) -> Quantity:
    """Return the norm of the mean gradient of a weight, by layer."""
    return lambda measured: measured[0][1]["norm_of_mean"][weight]


def above(name: str, stack: str = "encoder") -> Quantity:
    """Return the share of positions whose norm (``above``) or norm^2 (``above_squared``) exceeds 1.1 E, by layer."""
    return lambda measured: measured[0][1][stack][name]


def of_layers(quantity: Quantity, reduce: Callable[[Curve], float]) -> Quantity:
    """Reduce the values of all layers to one number."""
    return lambda measured: [reduce(quantity(measured))]


def of_depths(quantity: Quantity, reduce: Callable[[dict[int, float]], float]) -> Quantity:
    """Reduce the last layer's values in models of several depths to one number."""

    def reduced(measured: Measured) -> Curve:
        by_depth = {unit["layers"]: quantity([(unit, result)])[-1] for unit, result in measured}
        return [reduce(dict(sorted(by_depth.items())))]

    return reduced


def last_over_first(curve: Curve) -> float:
    return curve[-1] / curve[0]


def spread(curve: Curve) -> float:
    return max(curve) / min(curve)


def rank_correlation(curve: Curve) -> float:
    """Return Spearman's rank correlation with the number of the layer; 0 if all values are equal."""
    from scipy.stats import spearmanr  # takes half a second, which the processes that measure need not spend

    return float(spearmanr(range(len(curve)), curve).statistic) if len(set(curve)) > 1 else 0.0


def upper_exponent(curve: Curve) -> float:
    """Fit a power of the number of the layer, from 1, to the layers from L/2 up; return the exponent."""
    return exponent({layer: norm for layer, norm in enumerate(curve, 1) if 2 * layer >= len(curve)})


def spread_over_post(measured: Measured, weight: str) -> Curve:
    """Return the ratio of Pre-LN's spread of the gradients over layers to Post-LN's."""
    spreads = {unit["norm"]: spread(result["norm_of_mean"][weight]) for unit, result in measured}
    return [spreads["preln"] / spreads["postln"]]


def level(measured: Measured) -> Curve:
    """Return the ratio of the last layer's gradient in the simplified model to the prediction of Lemmas 1 to 3."""
    ((unit, result),) = measured
    targets = unit["batches"] * unit["sequences"] * unit["positions"]
    predicted = lemmas.last_gradient(unit["d"], unit["d_ff"], result["square"], targets)
    return [result["norm_of_mean"]["w2"][-1] / predicted]


def feed_forward_share(unit: Unit) -> float:
    """Return what a feed-forward layer adds to norm^2 / d, in a Transformer or in the simplified model."""
    if unit.what == "hidden_norms":
        return lemmas.feed_forward_share(unit["d"], unit["d_ff"])
    return lemmas.TORCH_SHARE if unit["init"] == "fairseq" else lemmas.feed_forward_share(unit["width"], unit["ffn"])


def post_square(measured: Measured, stack: str = "encoder") -> Curve:
    """Return the ratio of norm^2 of Post-LN's x5 to that of Lemma 2, by layer."""
    ((unit, result),) = measured
    return [square / (1 + feed_forward_share(unit)) for square in result[stack]["squared"]]


def pre_place(measured: Measured, stack: str = "encoder") -> Curve:
    """Return the place of Pre-LN's norm^2 between Lemma 2's bounds, from 0 (lower) to 1 (upper), by layer."""
    ((unit, result),) = measured
    places = []
    for passed, square in enumerate(result[stack]["squared"], 1):
        low, high = lemmas.pre_bounds(passed, feed_forward_share(unit), result[stack]["input"], ATTENTIONS[stack])
        places.append((square - low) / (high - low))
    return places


def pre_slope(measured: Measured, stack: str = "encoder") -> Curve:
    """Return the growth of norm^2 / d per layer of Pre-LN, without the contribution of the feed-forward layer."""
    ((unit, result),) = measured
    return [slope(result[stack]["squared"]) - feed_forward_share(unit)]


def pre_first(measured: Measured) -> Curve:
    """Return the ratio of norm^2 / d after the first layer of the simplified Pre-LN model to 1 + c + 1/n.

    The mean of n independent positions has norm^2 d / n.
    """
    ((unit, result),) = measured
    return [result["encoder"]["squared"][0] / (1 + feed_forward_share(unit) + 1 / unit["positions"])]


DEPTHS = ("real_last_gradient", "real_gradients")
"""Measurements that contain the last layer's gradient: of that layer alone, or of all layers."""
WORDS = {
    "mean": "interval {}",
    "ratio": "interval of the geometric mean {}",
    "every": "{} in every draw",
    "near": "mean within 4 standard errors of {}",
    "contains": "{} inside the interval of the geometric mean",
    "reported": "reported, not judged",
}
"""The ways to judge a quantity, as text; the braces stand for the region.

An interval cannot lie inside a single number. `near` is the way to judge an exact prediction for many layers at once,
of which some would miss a 95 % interval by chance; `every` is for identities, which hold without averaging."""


@dataclass(frozen=True)
class Check:
    """A row of the table: one rule for one quantity."""

    claim: str  # id of the claim
    quantity: str
    how: str  # the way to judge it, a key of `WORDS`
    region: Interval  # in which it must lie
    values: Quantity
    part: str  # name of the model
    what: tuple[str, ...]  # names of the measurements
    where: Json = field(default_factory=dict)  # settings that select the measurements
    by: tuple[str, ...] = ()  # settings by which they are grouped; the rule must hold in every group
    seeds: int = 10  # minimum number for a verdict

    @property
    def scale(self) -> Scale:
        return LOG if self.how in ("ratio", "contains") else LINEAR

    @property
    def rule(self) -> str:
        low, high = self.region
        text = f"inside [{low:.9g}, {high:.9g}]"
        if low == high:
            text = f"{low:.4g}"
        elif math.isinf(low):
            text = f"below {high:.9g}"
        elif math.isinf(high):
            text = f"above {low:.9g}"
        return WORDS[self.how].format(text.removeprefix("inside ") if self.how == "near" else text)


SIMPLE, DEEP, WIDE = "simplified model", "Transformers of 6 to 14 layers", "6-6 Transformer"
INITS = {"xavier": "Xavier", "xavier_legacy": "xavier_legacy", "fairseq": "fairseq's initialisation"}
STACKS, WEIGHTS = ("decoder", "encoder"), {"decoder's W2": "decoder.w2", "decoder's W1": "decoder.w1"}
NORMS = {"preln": "Pre-LN", "postln": "Post-LN"}
FLAT, RATE, ANY = (-0.15, 0.15), (-0.65, -0.35), (-math.inf, math.inf)
REACH = round(4 * math.sqrt(5 / lemmas.NUMBERS), 5)
"""Four relative standard errors of the mean of squared ReLUs, each of which has Var / E^2 = 5."""
BOUNDED = (-math.inf, 0.125)
LAST = of_depths(gradients("decoder.w2"), exponent)
MEAN = of_depths(gradients("decoder.w2"), lambda curve: fmean(curve.values()))
SIMPLE_LAST = of_depths(gradients("w2"), exponent)
LEVEL = ("norm over what Lemmas 1 to 3 predict, geometric mean over L", "ratio", (0.9, 1.1),
         of_depths(level, lambda curve: geometric_mean(curve.values())))  # fmt: skip

Row = partial[Check]  # a check without claim, quantity, how, region and values
SIZES = ("d", "d_ff", "positions")
STATES = {
    norm: partial(Check, part=SIMPLE, what=("hidden_norms",), where={"norm": norm}, by=SIZES, seeds=20)
    for norm in NORMS
}


def simple(norm: str, *by: str) -> Row:
    """Return checks of the simplified model's gradients, grouped by size."""
    return partial(
        Check, part=f"the paper's {SIMPLE}", what=("gradients",), where={"norm": norm}, by=("d", "d_ff", *by)
    )


def states(norm: str, stack: str, init: str = "xavier") -> Row:
    """Return checks of the hidden states of a Transformer."""
    part = f"{WIDE}, {INITS[init]}, {NORMS[norm]}, {stack}"
    return partial(Check, part=part, what=("real_hidden_states",), where={"norm": norm, "init": init})


def depths(norm: str, init: str = "xavier", tied: bool = False) -> Row:
    """Return checks of the last decoder layer's W2 in Transformers of several depths."""
    part = f"{DEEP}, {INITS[init]}{', tied embeddings' if tied else ''}"
    return partial(Check, part=part, what=DEPTHS, where={"norm": norm, "init": init, "tied": tied})


def layers(weight: str, init: str = "xavier", **norm: str) -> Row:
    """Return checks of a Transformer's gradients by layer, for both norm placements if no ``norm`` is given."""
    return partial(
        Check, part=f"{WIDE}, {INITS[init]}, {weight}", what=("real_gradients",), where={"init": init, **norm}
    )


CHECKS: tuple[Check, ...] = (
    Check("TH-1", "measured over predicted", "mean", (1 - REACH, 1 + REACH), number("ratio"), "Gaussian X", ("relu",),
          by=("d", "sigma")),

    STATES["postln"]("TH-2", "measured over predicted, mean over layers", "mean", (0.98, 1.02),
           of_layers(post_square, fmean)),
    STATES["postln"]("TH-2", "measured over predicted, every layer", "near", (1.0, 1.0), post_square),
    STATES["postln"]("TH-2", "slope on l", "near", (0.0, 0.0), of_layers(post_square, slope)),
    *(states("postln", stack)("TH-2", "measured over 1.444, mean over layers", "mean", (0.96, 1.04),
             of_layers(partial(post_square, stack=stack), fmean)) for stack in STACKS),
    *(states("postln", stack, "fairseq")("TH-2", "measured over 1.056, mean over layers", "mean", (0.97, 1.03),
             of_layers(partial(post_square, stack=stack), fmean)) for stack in STACKS),

    STATES["preln"]("TH-3", "slope on l, less c", "mean", (0.0, 1.0), pre_slope),
    STATES["preln"]("TH-3", "place between the bounds (0, 1), every layer", "near", (0.0, 1.0), pre_place),
    STATES["preln"]("TH-3", "first layer over 1 + c + 1/n", "near", (1.0, 1.0), pre_first),
    *(states("preln", stack)("TH-3", "slope on l, less c", "mean", (0.0, most),
             partial(pre_slope, stack=stack)) for stack, most in (("encoder", 1.0), ("decoder", 2.0))),
    *(states("preln", stack)("TH-3", "place between the bounds (0, 1), every layer", "near", (0.0, 1.0),
             partial(pre_place, stack=stack)) for stack in STACKS),

    *(Check("TH-4", quantity, how, region, number(name), "Gaussian x", ("jacobian",), by=("d",))
      for quantity, how, region, name in (
          ("spectral norm over sqrt(d) / norm of x", "mean", (-math.inf, 1.05), "bound"),
          ("spectral norm over sqrt(d) / norm of x", "every", (1 - 1e-8, math.inf), "bound"),
          ("spectral norm over sqrt(d) / norm of y", "every", (1 - 1e-8, 1 + 1e-8), "exact"),
          ("autograd less closed form", "every", (-math.inf, 1e-10), "error"),
          ("s J(s x) less J(x)", "every", (-math.inf, 1e-10), "scaling"))),

    *(states(norm, stack)("TH-5", f"share of {size} above 1.1 E, every layer", "mean", BOUNDED,
             above(name, stack))
      for norm in NORMS for stack in STACKS for size, name in (("norm^2", "above_squared"), ("norm", "above"))),
    *(Check("TH-5", f"share of {size} above 1.1 E, every layer", "mean", BOUNDED, above(name),
            f"{SIMPLE}, d = 512", ("hidden_norms",), {"d": 512}, ("norm", "d_ff", "positions"))
      for size, name in (("norm^2", "above_squared"), ("norm", "above"))),

    depths("postln")("TH-6", "exponent of L", "mean", FLAT, LAST),
    depths("postln")("TH-6", "mean over L", "mean", (1.4, 1.9), MEAN),
    depths("postln", "fairseq")("TH-6", "exponent of L", "mean", FLAT, LAST),
    simple("postln")("TH-6", "exponent of L", "mean", FLAT, SIMPLE_LAST),
    simple("postln")("TH-6", *LEVEL),

    depths("preln")("TH-7", "exponent of L (rate)", "mean", RATE, LAST),
    depths("preln")("TH-7", "exponent of L (direction)", "mean", (-math.inf, -0.15), LAST),
    depths("preln", "fairseq")("TH-7", "exponent of L (rate)", "mean", RATE, LAST),
    depths("preln", tied=True)("TH-7", "exponent of L", "reported", ANY, LAST),
    depths("preln", "fairseq", tied=True)("TH-7", "exponent of L", "reported", ANY, LAST),
    simple("preln")("TH-7", "exponent of L (rate)", "mean", RATE, SIMPLE_LAST),
    simple("preln")("TH-7", *LEVEL),

    *(layers(weight, init, norm="postln")("TH-8", "last layer over first", "ratio", (least, math.inf),
                                          of_layers(gradients(name), last_over_first))
      for init, least in (("xavier", 4.0), ("xavier_legacy", 2.5), ("fairseq", 1.5))
      for weight, name in WEIGHTS.items()),
    *(layers(weight, init, norm="postln")("TH-8", "rank correlation with the layer", "mean", (0.9, math.inf),
                                          of_layers(gradients(name), rank_correlation))
      for init in INITS for weight, name in WEIGHTS.items()),
    layers("encoder's W2", norm="postln")("TH-8", "last layer over first", "reported", ANY,
           of_layers(gradients("encoder.w2"), last_over_first)),

    *(layers(weight, norm="preln")("TH-9", "largest over smallest", "ratio", (1.0, 2.2),
             of_layers(gradients(name), spread)) for weight, name in WEIGHTS.items()),
    *(layers(weight)("TH-9", "largest over smallest, over Post-LN's", "ratio", (-math.inf, 1 / 3),
             partial(spread_over_post, weight=name)) for weight, name in WEIGHTS.items()),

    simple("preln", "layers")("TH-9", "exponent of l, upper half of the layers", "reported", ANY,
           of_layers(gradients("w2"), upper_exponent)),

    simple("postln", "layers")("TH-11", EXPLANATION, "contains", (1.5**0.5, 1.5**0.5),
           of_layers(gradients("w2"), mean_ratio)),
    layers("decoder's W2", norm="postln")("TH-11", GROWTH, "ratio", (1.0, math.inf),
           of_layers(gradients("decoder.w2"), mean_ratio)),
    Check("TH-11", "last layer over first", "reported", ANY, of_layers(gradients("decoder.w2"), last_over_first),
          f"{WIDE}, Xavier, decoder's W2, without the output of cross-attention", ("real_uncrossed_gradients",)),
)  # fmt: skip
"""All checks; the interval reported for a claim is that of its first check."""
