"""What the checks judge: one number for each seed, or one for each seed and layer, from measurements."""

from collections.abc import Callable, Sequence
from itertools import groupby

from ln_repro.claims.intervals import exponent, slope, spearman
from ln_repro.theory import lemmas
from ln_repro.theory.unit import Measured, Measurement, Unit

Curve = Sequence[float]
"""One value a layer."""
Read = Callable[[Unit, Measurement], Curve]
Quantity = Callable[[Measured], list[list[float]]]
"""Turns the measurements of one setting into values over seeds: one list, or one a layer where each is judged."""
ATTENTIONS = {"encoder": 1, "decoder": 2}
"""Of a layer of each stack: each adds at most d to norm^2 of the stream."""


def number(name: str) -> Quantity:
    """Return a number as it was measured."""
    return lambda made: [[found[name] for _, found in made]]


def each(read: Read) -> Quantity:
    """Return all that is read: the values of every layer, or the only one."""
    return lambda made: [list(layer) for layer in zip(*(read(*one) for one in made), strict=True)]


def of_layers(read: Read, reduce: Callable[[Curve], float]) -> Quantity:
    """Reduce the layers of every seed to one number."""
    return lambda made: [[reduce(read(*one)) for one in made]]


def of_depths(read: Read, reduce: Callable[[dict[int, float]], float]) -> Quantity:
    """Reduce the last layer's values at all depths of every seed to one number."""
    return lambda made: [[reduce(curve) for curve in by_depth(made, read)]]


def by_depth(made: Measured, read: Read) -> list[dict[int, float]]:
    """Return the last layer's value by depth of the model, one curve a seed, shallow models first."""
    ordered = sorted(made, key=lambda one: (one[0].seed, one[0]["layers"]))
    seeds = groupby(ordered, key=lambda one: one[0].seed)
    return [{unit["layers"]: read(unit, found)[-1] for unit, found in of_seed} for _, of_seed in seeds]


def last_over_first(curve: Curve) -> float:
    """Return how many times the last layer's value is the first's."""
    return curve[-1] / curve[0]


def step(curve: Curve) -> float:
    """Return the geometric mean ratio of successive layers."""
    return float(last_over_first(curve) ** (1 / (len(curve) - 1)))


def spread(curve: Curve) -> float:
    """Return the largest over the smallest."""
    return max(curve) / min(curve)


def order(curve: Curve) -> float:
    """Return the rank correlation with the number of the layer."""
    return spearman(range(len(curve)), curve)


def upper_exponent(curve: Curve) -> float:
    """Fit a power of the layer's number, from 1, to the upper half of the layers; return the exponent."""
    return exponent({layer: norm for layer, norm in enumerate(curve, 1) if 2 * layer >= len(curve)})


def gradients(weight: str | None = None) -> Read:
    """Read the norm of the mean gradient by layer: of a Transformer's weight, or of the simplified model's W2."""
    return lambda _, found: found["norm_of_mean"][weight] if weight else found["norm_of_mean"]


def spread_over_post(weight: str) -> Quantity:
    """Return, seed by seed, the spread over layers of Pre-LN's gradients over that of Post-LN's."""

    def quantity(made: Measured) -> list[list[float]]:
        spreads = {(unit["norm"], unit.seed): spread(gradients(weight)(unit, found)) for unit, found in made}
        seeds = [seed for norm, seed in spreads if norm == "preln" and ("postln", seed) in spreads]
        return [[spreads["preln", seed] / spreads["postln", seed] for seed in seeds]]

    return quantity


def level(unit: Unit, found: Measurement) -> Curve:
    """Read the last layer's norm in the simplified model over what Lemmas 1 to 3 predict for it."""
    targets = unit["batches"] * unit["sequences"] * unit["positions"]
    return [found["norm_of_mean"][-1] / lemmas.last_gradient(unit["d"], unit["d_ff"], found["square"], targets)]


def share(stack: str | None, name: str, unit: Unit, found: Measurement) -> Curve:
    """Read the share ``name`` of positions by layer, of a Transformer's stack or of the simplified model."""
    return (found[stack] if stack else found)[name]


def state(unit: Unit, found: Measurement, stack: str | None) -> tuple[Curve, float, float]:
    """Return norm^2 / d by layer and of the input, and c, of a Transformer's stack or of the simplified model."""
    if stack is None:
        return found["square"], 1.0, lemmas.feed_forward_share(unit["d"], unit["d_ff"])
    xavier = lemmas.feed_forward_share(unit["width"], unit["ffn"])
    share = lemmas.TORCH_SHARE if unit["init"] == "fairseq" else xavier
    return found[stack]["squared"], found[stack]["input"], share


def post_square(stack: str | None = None) -> Read:
    """Read norm^2 of Post-LN's x5 over Lemma 2's."""

    def read(unit: Unit, found: Measurement) -> Curve:
        squares, _, share = state(unit, found, stack)
        return [square / (1 + share) for square in squares]

    return read


def pre_place(stack: str | None = None) -> Read:
    """Read where norm^2 of Pre-LN's stream is between Lemma 2's bounds, from 0 (lower) to 1 (upper)."""

    def read(unit: Unit, found: Measurement) -> Curve:
        squares, start, share = state(unit, found, stack)
        added = [(square - start) / passed for passed, square in enumerate(squares, 1)]
        return [(of_layer - share) / (ATTENTIONS[stack] if stack else 1) for of_layer in added]

    return read


def pre_slope(stack: str | None = None) -> Read:
    """Read what a layer of Pre-LN adds to norm^2 / d, less what its feed-forward adds."""

    def read(unit: Unit, found: Measurement) -> Curve:
        squares, _, share = state(unit, found, stack)
        return [slope(squares) - share]

    return read


def pre_first(unit: Unit, found: Measurement) -> Curve:
    """Read norm^2 after the first layer of the simplified Pre-LN model over 1 + c + 1/n."""
    return [found["square"][0] / lemmas.pre_first(unit["d"], unit["d_ff"], unit["positions"])]
