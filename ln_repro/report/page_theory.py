"""The findings of the theory on the report page: panels for charts, and tables of numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

from ln_repro.paper.figure_3 import FIGURE_3
from ln_repro.report.page_runs import named
from ln_repro.report.tables import Table
from ln_repro.report.theory import interval

Finding = Mapping[str, Any]
Panel = dict[str, Any]
"""``title``, ``x`` and ``y`` (labels of the axes), ``log``, and ``series``: each with ``label``, ``colour``, ``dash``,
``marks`` (points only), ``x``, ``y``, optionally ``low`` and ``high`` (an interval) and ``key`` (a common label)."""
OTHERS = ("other", "preln-sgd", "postln-radam")
"""Colours of series that do not belong to a norm placement."""
BOUND = 0.125
"""The paper's bound on the share of positions more than 0.1 above the mean (section 3.4)."""

PANELS: dict[str, list[tuple[str, str]]] = {
    "TH-2": [("hidden_states", "simplified postln"), ("hidden_states", "real postln")],
    "TH-3": [("hidden_states", "simplified preln"), ("hidden_states", "real preln")],
    "TH-5": [("shares", "shares")],
    "TH-6": [("figure_3", "c"), ("simplified_gradients", "last postln")],
    "TH-7": [("figure_3", "d"), ("simplified_gradients", "last preln")],
    "TH-8": [("figure_3", "a"), ("figure_3", "b")],
    "TH-9": [("figure_3", "a"), ("figure_3", "b")],
    "TH-11": [("figure_3", "b"), ("simplified_gradients", "layers postln")],
    "TH-11-pre": [("simplified_gradients", "layers preln")],
}
"""The panels of each finding; findings that are not listed have one of their intervals by width of the model."""
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


def theory_panels(finding: Finding, figures: Mapping[str, Any]) -> list[Panel]:
    """Return the panels of a finding."""
    if finding["id"] not in PANELS:
        return [_by_width(finding["values"])]
    return [
        _drawn(figure, name, figures[figure] if name == "shares" else figures[figure][name])
        for figure, name in PANELS[finding["id"]]
    ]


def _drawn(figure: str, name: str, content: Mapping[str, Any]) -> Panel:
    """Return a panel of the theory's figures with the paper's values or bounds."""
    if figure == "hidden_states":
        return _panel(TITLES[name], "layer", "squared norm / d", _between_bounds(content))
    series = [_series(label, points) for label, points in content.items()]
    if figure == "shares":
        layers = next(iter(content.values()))
        series.append(_line("bound of the paper", dict.fromkeys(layers, BOUND), "bound", dash="dotted"))
        return _panel("Share of positions whose squared norm is above 1.1 of the mean", "layer", "share", series)
    if figure == "simplified_gradients":
        kind, _, norm = name.partition(" ")
        each = "width" if kind == "last" else "depth"
        series = [line | {"key": f"{named(norm)}, a line for each {each}"} for line in series]
        title = "Gradient of the last W2, simplified model" if kind == "last" else "Gradient of W2, simplified model"
        return _panel(title, "layers" if kind == "last" else "layer", "gradient norm", series, log=True)
    for norm, values in FIGURE_3.get(name, {}).items():
        series.append(_line(f"paper, {named(norm)}", values, norm, marks=True))
    x = "layer" if name in "ab" else "layers of encoder and of decoder"
    return _panel(TITLES[name], x, "gradient norm", series)


def _between_bounds(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return series of the norms of hidden states and of the bounds of Lemma 2; equal bounds give one line."""
    series = [_series(label, points) for label, points in content["series"].items()]
    for label, ends in content["bounds"].items():
        stack = label.partition(" ")[2]
        for bound in dict.fromkeys(tuple(pair[at] for pair in ends.values()) for at in (0, 1)):
            named_bound = f"Lemma 2{f', {stack}' if stack else ''}"
            series.append(_line(named_bound, dict(zip(ends, bound, strict=True)), "bound", dash="dotted"))
    return series


def _by_width(values: Mapping[str, Mapping[str, Sequence[float]]]) -> Panel:
    """Return a panel of a finding's first quantity by width d, with one line per combination of other settings."""
    lines: dict[str, dict[str, tuple[float, float, float]]] = {}
    for setting, (low, high) in next(iter(values.values())).items():
        width, _, rest = setting.removeprefix("d=").partition(" ")
        lines.setdefault(rest or "norm / bound", {})[width] = ((low + high) / 2, low, high)
    series = [_series(*line) | {"colour": colour} for line, colour in zip(lines.items(), OTHERS, strict=False)]
    return _panel("By width of the model", "d", "measured / predicted", series)


def _panel(title: str, x: str, y: str, series: Sequence[dict[str, Any]], log: bool = False) -> Panel:
    return {"title": title, "x": x, "y": y, "log": log, "series": series}


def _series(label: str, points: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Return a series of means with their intervals."""
    line = _line(_label(label), {x: point[0] for x, point in points.items()}, label.split()[0],
                 dash="dashed" if "encoder" in label else "")  # fmt: skip
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


def number_table(finding: Finding) -> Table:
    """Return the table of a finding's checks: model, quantity, interval, rule and verdict."""
    return {
        "columns": ["model", "quantity", "ours, 95 %", "rule", "verdict", "seeds"],
        "rows": [[part["part"], part["quantity"], interval(part), part["rule"], part["verdict"], part["seeds"]]
                 for part in finding["parts"]],
    }  # fmt: skip
