"""The quantities that the checks judge: one number per seed, or one per seed and layer, from measurements."""

from collections.abc import Callable, Sequence
from itertools import groupby

from ln_repro.claims.intervals import exponent, slope, spearman
from ln_repro.theory import lemmas
from ln_repro.theory.unit import Measured, Measurement, Unit

Curve = Sequence[float]
"""One value per layer."""
Read = Callable[[Unit, Measurement], Curve]
Quantity = Callable[[Measured], list[list[float]]]
"""Returns values over seeds from the measurements of one setting: one list, or one per layer if each is judged."""
ATTENTIONS = {"encoder": 1, "decoder": 2}
"""Attentions of a layer, by stack; each adds at most d to norm^2 of the stream."""


def number(name: str) -> Quantity:
    """Return a measured number."""
    return lambda made: [[found[name] for _, found in made]]


def each(read: Read) -> Quantity:
    """Return every value that is read, one list per layer."""
    return lambda made: [list(layer) for layer in zip(*(read(*one) for one in made), strict=True)]


def of_layers(read: Read, reduce: Callable[[Curve], float]) -> Quantity:
    """Reduce the layers of every seed to one number."""
    return lambda made: [[reduce(read(*one)) for one in made]]


def of_depths(read: Read, reduce: Callable[[dict[int, float]], float]) -> Quantity:
    """Reduce the last layer's values over depths of every seed to one number."""
    return lambda made: [[reduce(curve) for curve in by_depth(made, read)]]


def by_depth(made: Measured, read: Read) -> list[dict[int, float]]:
    """Return the last layer's value by depth of the model in increasing order, one curve per seed."""
    ordered = sorted(made, key=lambda one: (one[0].seed, one[0]["layers"]))
    seeds = groupby(ordered, key=lambda one: one[0].seed)
    return [{unit["layers"]: read(unit, found)[-1] for unit, found in of_seed} for _, of_seed in seeds]


def last_over_first(curve: Curve) -> float:
    """Return the last layer's value over the first's."""
    return curve[-1] / curve[0]


def step(curve: Curve) -> float:
    """Return the geometric mean ratio of successive layers."""
    return float(last_over_first(curve) ** (1 / (len(curve) - 1)))


def spread(curve: Curve) -> float:
    """Return the largest value over the smallest."""
    return max(curve) / min(curve)


def order(curve: Curve) -> float:
    """Return the rank correlation with the layer's number."""
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


Stream = Callable[[Curve, float, float, int], Curve]
"""Turns norm^2 / d by layer and at the input, c, and the number of attentions in a layer into values by layer."""


def of_stream(formula: Stream, stack: str | None) -> Read:
    """Read a quantity of the hidden states, of a Transformer's stack or of the simplified model."""

    def read(unit: Unit, found: Measurement) -> Curve:
        if stack is None:
            return formula(found["square"], 1.0, lemmas.feed_forward_share(unit["d"], unit["d_ff"]), 1)
        share = lemmas.feed_forward_share(unit["width"], unit["ffn"])
        if unit["init"] == "fairseq":
            share = lemmas.TORCH_SHARE
        return formula(found[stack]["squared"], found[stack]["input"], share, ATTENTIONS[stack])

    return read


def post_square(stack: str | None = None) -> Read:
    """Read norm^2 of Post-LN's x5 over Lemma 2's."""
    return of_stream(lambda squares, start, share, attentions: [square / (1 + share) for square in squares], stack)


def pre_place(stack: str | None = None) -> Read:
    """Read the place of Pre-LN's norm^2 between Lemma 2's bounds, from 0 (lower) to 1 (upper)."""

    def formula(squares: Curve, start: float, share: float, attentions: int) -> Curve:
        return [((square - start) / passed - share) / attentions for passed, square in enumerate(squares, 1)]

    return of_stream(formula, stack)


def pre_slope(stack: str | None = None) -> Read:
    """Read what a layer of Pre-LN adds to norm^2 / d, less what its feed-forward adds."""
    return of_stream(lambda squares, start, share, attentions: [slope(squares) - share], stack)


def pre_first(unit: Unit, found: Measurement) -> Curve:
    """Read norm^2 after the first layer of the simplified Pre-LN model over 1 + c + 1/n."""
    return [found["square"][0] / lemmas.pre_first(unit["d"], unit["d_ff"], unit["positions"])]
