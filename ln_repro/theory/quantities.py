"""The quantities to which checks apply: one number per seed, or one per seed and layer, from measurements."""

from collections.abc import Callable, Sequence
from itertools import groupby

from ln_repro.claims.intervals import exponent, slope
from ln_repro.theory import lemmas
from ln_repro.theory.unit import Measured, Measurement, Unit

Curve = Sequence[float]
"""One value per layer."""
Read = Callable[[Unit, Measurement], Curve]
Quantity = Callable[[Measured], list[list[float]]]
"""Returns values over seeds from the measurements of one setting: one list, or one per layer if all are judged."""
ATTENTIONS = {"encoder": 1, "decoder": 2}
"""Number of attentions per layer, by stack; each adds at most d to norm^2 of the stream."""


def number(name: str) -> Quantity:
    """Return a quantity that was measured directly."""
    return lambda measured: [[result[name] for _, result in measured]]


def each(read: Read) -> Quantity:
    """Return the values of every layer, one list per layer."""
    return lambda measured: [list(layer) for layer in zip(*(read(*one) for one in measured), strict=True)]


def of_layers(read: Read, reduce: Callable[[Curve], float]) -> Quantity:
    """Reduce the values of all layers to one number per seed."""
    return lambda measured: [[reduce(read(*one)) for one in measured]]


def of_depths(read: Read, reduce: Callable[[dict[int, float]], float]) -> Quantity:
    """Reduce the last layer's values at all depths to one number per seed."""
    return lambda measured: [[reduce(curve) for curve in by_depth(measured, read)]]


def numbered(curve: Curve) -> dict[int, float]:
    """Return the values of a curve by the number of the layer, from 1."""
    return dict(enumerate(curve, 1))


def by_depth(measured: Measured, read: Read) -> list[dict[int, float]]:
    """Return the last layer's value by depth of the model in increasing order, one curve per seed."""
    ordered = sorted(measured, key=lambda one: (one[0].seed, one[0]["layers"]))
    seeds = groupby(ordered, key=lambda one: one[0].seed)
    return [{unit["layers"]: read(unit, result)[-1] for unit, result in of_seed} for _, of_seed in seeds]


def last_over_first(curve: Curve) -> float:
    """Return the ratio of the last layer's value to the first's."""
    return curve[-1] / curve[0]


def step(curve: Curve) -> float:
    """Return the geometric mean of the ratios of successive layers."""
    return float(last_over_first(curve) ** (1 / (len(curve) - 1)))


def spread(curve: Curve) -> float:
    """Return the ratio of the largest value to the smallest."""
    return max(curve) / min(curve)


def order(curve: Curve) -> float:
    """Return Spearman's rank correlation with the number of the layer; 0 if all values are equal."""
    from scipy.stats import spearmanr  # takes half a second, which the processes that measure need not spend

    return float(spearmanr(range(len(curve)), curve).statistic) if len(set(curve)) > 1 else 0.0


def upper_exponent(curve: Curve) -> float:
    """Fit a power of the number of the layer, from 1, to the layers from L/2 up; return the exponent."""
    return exponent({layer: norm for layer, norm in numbered(curve).items() if 2 * layer >= len(curve)})


def gradients(weight: str | None = None) -> Read:
    """Read the norm of the mean gradient by layer: of a Transformer's weight, or of the simplified model's W2."""
    return lambda _, result: result["norm_of_mean"][weight] if weight else result["norm_of_mean"]


def spread_over_post(weight: str) -> Quantity:
    """Return the ratio of Pre-LN's spread of the gradients over layers to Post-LN's, for each seed."""

    def quantity(measured: Measured) -> list[list[float]]:
        spreads = {(unit["norm"], unit.seed): spread(gradients(weight)(unit, result)) for unit, result in measured}
        seeds = [seed for norm, seed in spreads if norm == "preln" and ("postln", seed) in spreads]
        return [[spreads["preln", seed] / spreads["postln", seed] for seed in seeds]]

    return quantity


def level(unit: Unit, result: Measurement) -> Curve:
    """Read the ratio of the last layer's norm in the simplified model to the prediction of Lemmas 1 to 3."""
    targets = unit["batches"] * unit["sequences"] * unit["positions"]
    return [result["norm_of_mean"][-1] / lemmas.last_gradient(unit["d"], unit["d_ff"], result["square"], targets)]


def share(unit: Unit, result: Measurement, name: str, stack: str | None = None) -> Curve:
    """Read the share ``name`` of positions by layer, of the simplified model or of a Transformer's stack."""
    return (result[stack] if stack else result)[name]


def feed_forward_share(unit: Unit, stack: str | None) -> float:
    """Return what a feed-forward layer adds to norm^2 / d, in the simplified model or in a Transformer's stack."""
    if stack is None:
        return lemmas.feed_forward_share(unit["d"], unit["d_ff"])
    return lemmas.TORCH_SHARE if unit["init"] == "fairseq" else lemmas.feed_forward_share(unit["width"], unit["ffn"])


def squares(result: Measurement, stack: str | None) -> Curve:
    """Return norm^2 / d by layer, of the simplified model or of a Transformer's stack."""
    found: Curve = result[stack]["squared"] if stack else result["square"]
    return found


def post_square(unit: Unit, result: Measurement, stack: str | None = None) -> Curve:
    """Read the ratio of norm^2 of Post-LN's x5 to that of Lemma 2."""
    predicted = 1 + feed_forward_share(unit, stack)
    return [square / predicted for square in squares(result, stack)]


def pre_place(unit: Unit, result: Measurement, stack: str | None = None) -> Curve:
    """Read the relative position of Pre-LN's norm^2 between Lemma 2's bounds, from 0 (lower) to 1 (upper)."""
    given = (result[stack]["input"], ATTENTIONS[stack]) if stack else ()
    curve, share = squares(result, stack), feed_forward_share(unit, stack)
    bounds = [lemmas.pre_bounds(passed, share, *given) for passed in range(1, len(curve) + 1)]
    return [(square - low) / (high - low) for square, (low, high) in zip(curve, bounds, strict=True)]


def pre_slope(unit: Unit, result: Measurement, stack: str | None = None) -> Curve:
    """Read the growth of norm^2 / d per layer of Pre-LN, without the contribution of the feed-forward layer."""
    return [slope(squares(result, stack)) - feed_forward_share(unit, stack)]


def pre_first(unit: Unit, result: Measurement) -> Curve:
    """Read the ratio of norm^2 / d after the first layer of the simplified Pre-LN model to 1 + c + 1/n.

    The mean of n independent positions has norm^2 d / n.
    """
    return [result["square"][0] / (1 + feed_forward_share(unit, None) + 1 / unit["positions"])]
