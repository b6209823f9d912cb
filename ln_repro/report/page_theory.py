"""The findings of the theory as the page shows them: panels to draw, and tables of numbers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ln_repro.paper.figure_3 import FIGURE_3
from ln_repro.report.page_runs import named
from ln_repro.report.tables import Table

Finding = Mapping[str, Any]
Panel = dict[str, Any]
"""``title``, ``x`` and ``y`` (names of the axes), ``log``, and ``series``: each with ``label``, ``colour``, ``dash``,
``marks`` (points only), ``x``, ``y``, perhaps ``low`` and ``high`` (an interval) and ``key`` (a name for several)."""
OTHERS = ("other", "preln-sgd", "postln-radam")
"""Colours of what is neither norm."""
Drawing = Callable[[Mapping[str, Any]], list[Panel]]
BOUND = 0.125
"""Share of positions that may be more than 0.1 above the mean (paper section 3.4)."""
DEEPEST = 14
"""Layers of the paper's deepest model."""

PANELS: dict[str, list[tuple[str, str]]] = {
    "TH-2": [("hidden_states", "simplified postln")],
    "TH-2-real": [("hidden_states", "real postln")],
    "TH-3": [("hidden_states", "simplified preln")],
    "TH-3-real": [("hidden_states", "real preln")],
    "TH-6": [("figure_3", "c")],
    "TH-7": [("figure_3", "d")],
    "TH-8": [("figure_3", "a"), ("figure_3", "b")],
    "TH-9": [("figure_3", "a"), ("figure_3", "b")],
}
"""Which drawn panels show a finding; for the others, its own values are drawn."""
TITLES = {
    "a": "Gradient of W1, 6+6 layers (figure 3a)",
    "b": "Gradient of W2, 6+6 layers (figure 3b)",
    "c": "Gradient of the last W2, Post-LN (figure 3c)",
    "d": "Gradient of the last W2, Pre-LN (figure 3d)",
    "simplified postln": "Simplified model, Post-LN: squared norm of x5 over d",
    "simplified preln": "Simplified model, Pre-LN: squared norm of the stream over d",
    "real postln": "6+6 Transformer, Post-LN: squared norm of x5 over d",
    "real preln": "6+6 Transformer, Pre-LN: squared norm of the stream over d",
}


def theory_panels(found: Finding, figures: Mapping[str, Any]) -> list[Panel]:
    """Return what is to be drawn for a finding."""
    if found["id"] in PANELS:
        return [_drawn(figure, name, figures[figure][name]) for figure, name in PANELS[found["id"]]]
    return OWN[found["id"]](found["values"]) if found["id"] in OWN else []


def _drawn(figure: str, name: str, content: Mapping[str, Any]) -> Panel:
    """Return a panel of the theory's figures, with the paper's values or the lemma's bounds."""
    if figure == "figure_3":
        series = [_series(label, points) for label, points in content.items()]
        for norm, values in FIGURE_3.get(name, {}).items():
            series.append(_line(f"paper, {named(norm)}", values, norm, marks=True))
        x = "layer" if name in "ab" else "layers of encoder and of decoder"
        return _panel(TITLES[name], x, "gradient norm", series)
    series = [_series(label, points) for label, points in content["series"].items()]
    for label, ends in content["bounds"].items():
        for end, at in (("least", 0), ("most", 1)):
            stack = label.partition(" ")[2]
            bound = {x: pair[at] for x, pair in ends.items()}
            if end == "least" or bound != {x: pair[0] for x, pair in ends.items()}:
                series.append(_line(f"Lemma 2{f', {stack}' if stack else ''}", bound, "bound", dash="dotted"))
    return _panel(TITLES[name], "layer", "squared norm / d", series)


def _by_depth(norm: str) -> Drawing:
    """Draw the last layer's gradient by depth, a line for each width; log-log, so that a power of L is straight."""

    def draw(values: Mapping[str, Any]) -> list[Panel]:
        series = [
            _line(key, value["last layer"], norm) | {"key": f"{named(norm)}, a line for each width"}
            for key, value in values.items()
        ]
        return [_panel("Gradient of the last W2, simplified model", "layers", "gradient norm", series, log=True)]

    return draw


def _by_layer(norm: str) -> Drawing:
    """Draw the gradients of the widest square model, a line for each depth, beside what the theory predicts."""

    def draw(values: Mapping[str, Any]) -> list[Panel]:
        sizes = {key: {name: int(number) for name, number in _settings(key)} for key in values}
        width = max(size["d"] for size in sizes.values() if size["d"] == size["d_ff"])
        chosen = {size["L"]: values[key] for key, size in sizes.items() if size["d"] == size["d_ff"] == width}
        name = f"{named(norm)}, a line for each depth from {min(chosen)} to {max(chosen)}"
        series = [_line(f"L = {depth}", value["by layer"], norm) | {"key": name} for depth, value in chosen.items()]
        last = max((depth for depth in chosen if depth <= DEEPEST), default=max(chosen))
        top, ratio = chosen[last]["by layer"][str(last)], chosen[last].get("predicted", 1.0)
        predicted = {layer: top * ratio ** (layer - last) for layer in range(1, last + 1)}
        series.append(_line(f"predicted, L = {last}", predicted, "bound", dash="dashed"))
        return [_panel(f"Gradient of W2, simplified model, d = {width}", "layer", "gradient norm", series, log=True)]

    return draw


def _by_width(values: Mapping[str, Any]) -> list[Panel]:
    """Draw what has a value and an interval for each width d, a line for each other setting."""
    lines: dict[str, dict[str, tuple[float, float, float]]] = {}
    for key, value in values.items():
        sizes = dict(_settings(key))
        words = [part for part in key.split() if not part.startswith(("d=", "d_ff="))]
        if "d_ff" in sizes:
            words.append(f"d_ff={int(sizes['d_ff']) // int(sizes['d'])}d")
        low, high = value.get("interval") or value["bound"]
        mean = value.get("mean", value.get("largest share", (low + high) / 2))
        lines.setdefault(" ".join(words) or "norm / bound", {})[sizes["d"]] = (mean, low, high)
    many = len(lines) > 6
    series = [
        _series(label, points, band=not many)
        | ({} if "LN" in _label(label) else {"colour": OTHERS[number % len(OTHERS)]})
        for number, (label, points) in enumerate(lines.items())
    ]
    if many:
        bound = dict.fromkeys(next(iter(lines.values())), BOUND)
        series.append(_line("bound of the paper", bound, "bound", dash="dotted"))
    return [_panel("By width of the model", "d", "largest share" if many else "measured / predicted", series)]


def _settings(key: str) -> list[tuple[str, str]]:
    """Return the sizes in a setting's name: ``d=64 d_ff=128 n=8``."""
    return [(name, number) for name, is_size, number in (part.partition("=") for part in key.split()) if is_size]


def _by_layer_and_norm(values: Mapping[str, Any]) -> list[Panel]:
    series = [
        _line(_label(key), value["by layer"], key.split()[0], dash="dashed" if "encoder" in key else "")
        | {"key": f"{_label(key).removesuffix('^2').removesuffix(' norm')}: norm and norm^2"}
        for key, value in values.items()
    ]
    bound = dict.fromkeys(next(iter(values.values()))["by layer"], BOUND)
    return [_panel("Share of positions above 1.1 of the mean", "layer", "share",
                   [*series, _line("bound of the paper", bound, "bound", dash="dotted")])]  # fmt: skip


def _depth_of_last(values: Mapping[str, float]) -> list[Panel]:
    return [_panel("Gradient of the last W2, Pre-LN, one matrix for all embeddings", "layers of encoder and of decoder",
                   "gradient norm", [_line("Pre-LN, tied", values, "preln")])]  # fmt: skip


OWN: dict[str, Drawing] = {
    "TH-1": _by_width, "TH-4": _by_width, "TH-5-simplified": _by_width, "TH-5": _by_layer_and_norm,
    "T1-post": _by_depth("postln"), "T1-pre": _by_depth("preln"), "TH-7-tied": _depth_of_last,
    "TH-11": _by_layer("postln"), "T1-layers": _by_layer("preln"),
}  # fmt: skip


def _panel(title: str, x: str, y: str, series: Sequence[dict[str, Any]], log: bool = False) -> Panel:
    return {"title": title, "x": x, "y": y, "log": log, "series": series}


def _series(label: str, points: Mapping[str, Sequence[float]], band: bool = True) -> dict[str, Any]:
    """Return a series of means with their intervals."""
    line = _line(_label(label), {x: point[0] for x, point in points.items()}, label.split()[0],
                 dash="dashed" if "encoder" in label else "")  # fmt: skip
    if not band:
        return line
    _, low, high = zip(*points.values(), strict=True)
    return line | {"low": [*map(_short, low)], "high": [*map(_short, high)]}


def _line(label: str, values: Mapping[Any, float], colour: str, dash: str = "", marks: bool = False) -> dict[str, Any]:
    return {"label": label, "colour": colour, "dash": dash, "marks": marks,
            "x": [int(x) for x in values], "y": [_short(y) for y in values.values()]}  # fmt: skip


def _label(label: str) -> str:
    norm, _, rest = label.partition(" ")
    return f"{named(norm)}{f', {rest}' if rest else ''}" if norm in ("postln", "preln") else label


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def number_table(found: Finding) -> Table:
    """Return the numbers of a finding: a row for each setting; what is by layer as least to most."""
    values = found["values"]
    if not any(isinstance(value, Mapping) for value in values.values()):
        first = "layer" if found["id"] in ("TH-8", "TH-9") else "layers"
        return {"columns": [first, *values], "rows": [["gradient norm", *map(_cell, values.values())]]}
    keys = list(dict.fromkeys(key for value in values.values() for key in value))
    titles = [f"{key}, least to most" if key in ("by layer", "last layer") else key for key in keys]
    return {
        "columns": ["setting", *titles],
        "rows": [[_label(name), *(_cell(value.get(key)) for key in keys)] for name, value in values.items()],
    }


def _cell(value: Any) -> str:
    """Return a number, an interval, or the range of what is by layer, in three digits."""
    if isinstance(value, Mapping):
        return f"{min(value.values()):.3g} to {max(value.values()):.3g}"
    if isinstance(value, list | tuple):
        return " to ".join("–" if end is None else f"{end:.3g}" for end in value)
    return "–" if value is None else value if isinstance(value, str) else f"{value:.3g}"
