"""The findings of the theory on the report page: panels for charts, and tables of numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

from ln_repro.report.tables import Table
from ln_repro.report.theory import interval
from ln_repro.report.theory_panels import Panel, described, measured

Finding = Mapping[str, Any]
OTHERS = ("other", "preln-sgd", "postln-radam")
"""Colours of series that do not belong to a norm placement."""
PANELS: dict[str, Sequence[str]] = {
    "TH-2": ("hidden_states simplified postln", "hidden_states real postln"),
    "TH-3": ("hidden_states simplified preln", "hidden_states real preln"),
    "TH-5": ("shares",),
    "TH-6": ("figure_3 c", "simplified_gradients last postln"),
    "TH-7": ("figure_3 d", "simplified_gradients last preln"),
    "TH-8": ("figure_3 a", "figure_3 b"),
    "TH-9": ("figure_3 a", "figure_3 b"),
    "TH-11": ("figure_3 b", "simplified_gradients layers postln"),
    "TH-11-pre": ("simplified_gradients layers preln",),
}
"""The panels of each finding; findings that are not listed have one of their intervals by width of the model."""


def theory_panels(finding: Finding, figures: Mapping[str, Any]) -> list[Panel]:
    """Return the panels of a finding, with numbers of five digits."""
    panels = [described(name, _content(name, figures)) for name in PANELS.get(finding["id"], ())]
    panels = panels or [_by_width(finding["values"])]
    for series in (series for panel in panels for series in panel["series"]):
        series |= {key: [float(f"{y:.5g}") for y in series[key]] for key in ("y", "low", "high") if key in series}
    return panels


def _content(name: str, figures: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the data of a panel; the figure of shares has one panel alone."""
    figure, _, part = name.partition(" ")
    content: Mapping[str, Any] = figures[figure]
    return content[part] if part else content


def _by_width(values: Mapping[str, Mapping[str, Sequence[float]]]) -> Panel:
    """Return a panel of a finding's first quantity by width d, with one line per combination of other settings."""
    lines: dict[str, dict[str, tuple[float, float, float]]] = {}
    for setting, (low, high) in next(iter(values.values())).items():
        width, _, rest = setting.removeprefix("d=").partition(" ")
        lines.setdefault(rest or "norm / bound", {})[width] = ((low + high) / 2, low, high)
    series = [measured(*line) | {"colour": colour} for line, colour in zip(lines.items(), OTHERS, strict=False)]
    return {"title": "By width of the model", "x": "d", "y": "measured / predicted", "log": False, "series": series}


def number_table(finding: Finding) -> Table:
    """Return the table of a finding's checks: model, quantity, interval, rule and verdict."""
    return {
        "columns": ["model", "quantity", "ours, 95 %", "rule", "verdict", "seeds"],
        "rows": [[part["part"], part["quantity"], interval(part), part["rule"], part["verdict"], part["seeds"]]
                 for part in finding["parts"]],
    }  # fmt: skip
