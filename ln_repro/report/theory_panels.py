"""The panels of the theory's figures: one description, drawn by matplotlib and by the report page."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ln_repro.claims.words import SCHEMES
from ln_repro.paper.figures import FIGURE_3

Series = dict[str, Any]
"""``label``, ``colour`` (a norm placement, or another name), ``dash``, ``marks`` (points only), ``x``, ``y``, and
optionally ``low`` and ``high`` (an interval) and ``key`` (a common label)."""
Panel = dict[str, Any]
"""``title``, ``x`` and ``y`` (labels of the axes), ``log`` and ``series``."""
SHARE = 0.125
"""The paper's bound on the share of positions more than 0.1 above the mean (section 3.4)."""
GRADIENT, SQUARE, DEPTH = "gradient norm", "squared norm / d", "layers of encoder and of decoder"
AXES = {
    "figure_3 a": ("Gradient of W1, 6+6 layers (figure 3a)", "layer", GRADIENT),
    "figure_3 b": ("Gradient of W2, 6+6 layers (figure 3b)", "layer", GRADIENT),
    "figure_3 c": ("Gradient of the last W2, Post-LN (figure 3c)", DEPTH, GRADIENT),
    "figure_3 d": ("Gradient of the last W2, Pre-LN (figure 3d)", DEPTH, GRADIENT),
    "hidden_states simplified postln": ("Simplified model, Post-LN: norm of x5", "layer", SQUARE),
    "hidden_states simplified preln": ("Simplified model, Pre-LN: norm of the stream", "layer", SQUARE),
    "hidden_states real postln": ("6+6 Transformer, Post-LN: norm of x5", "layer", SQUARE),
    "hidden_states real preln": ("6+6 Transformer, Pre-LN: norm of the stream", "layer", SQUARE),
    "shares": ("Share of positions whose squared norm is above 1.1 times the mean", "layer", "share"),
    "simplified_gradients last postln": ("Gradient of the last W2, simplified model", "layers", GRADIENT),
    "simplified_gradients last preln": ("Gradient of the last W2, simplified model", "layers", GRADIENT),
    "simplified_gradients layers postln": ("Gradient of W2, simplified model", "layer", GRADIENT),
    "simplified_gradients layers preln": ("Gradient of W2, simplified model", "layer", GRADIENT),
}
"""The title of each panel of `ln_repro.theory.figures` and the labels of its axes, by figure and panel."""


def described(name: str, content: Mapping[str, Any]) -> Panel:
    """Return a panel, named as in `AXES`, with Lemma 2's bounds or the paper's values beside the measurements."""
    figure, _, part = name.partition(" ")
    title, x, y = AXES[name]
    series = [measured(label, points) for label, points in content.get("series", content).items()]
    if figure == "hidden_states":
        for label, ends in content["bounds"].items():
            words = ", ".join(["Lemma 2", *label.split()[1:]])
            bounds = dict.fromkeys(zip(*ends.values(), strict=True))  # equal ones give one line
            series += [line(words, "bound", ends, bound, dash="dotted") for bound in bounds]
    if figure == "shares":
        layers = next(iter(content.values()))
        series.append(line("bound of the paper", "bound", layers, [SHARE] * len(layers), dash="dotted"))
    if figure == "figure_3":
        for norm, values in FIGURE_3.get(part, {}).items():
            series.append(line(f"paper, {SCHEMES[norm]}", norm, values, [*values.values()], marks=True))
    if figure == "simplified_gradients":
        kind, norm = part.split()
        each = "width" if kind == "last" else "depth"
        series = [one | {"key": f"{SCHEMES[norm]}, a line for each {each}"} for one in series]
    return {"title": title, "x": x, "y": y, "log": figure == "simplified_gradients", "series": series}


def measured(label: str, points: Mapping[str, Sequence[float]]) -> Series:
    """Return a series of means with their intervals; the encoder's is dashed."""
    norm, _, rest = label.partition(" ")
    words = ", ".join([SCHEMES[norm], *([rest] if rest else [])]) if norm in SCHEMES else label
    means, low, high = zip(*points.values(), strict=True)
    return line(words, norm, points, means, "dashed" if rest == "encoder" else "") | {"low": low, "high": high}


def line(label: str, colour: str, x: Iterable[Any], y: Sequence[float], dash: str = "", marks: bool = False) -> Series:
    """Return a series without an interval."""
    return {"label": label, "colour": colour, "dash": dash, "marks": marks, "x": [*map(int, x)], "y": y}
