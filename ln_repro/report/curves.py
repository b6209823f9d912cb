"""Training-loss curves of runs, from their events."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ln_repro.records.events import Event
from ln_repro.report.plotting import COLOURS, GREY, figure_style, tidy


def draw_losses(runs: Mapping[str, tuple[Mapping[str, object], Sequence[Event]]], out: Path, title: str) -> None:
    """Draw the training loss of each run by update, from its axes and events, as a ``.png`` or ``.svg`` file."""
    with figure_style() as pyplot:
        figure, axis = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
        for label, (axes, events) in runs.items():
            losses = {e["update"]: e["loss"] for e in events if e["kind"] == "train" and e["loss"] is not None}
            colour, line = COLOURS.get(str(axes["norm"]), GREY), "-" if axes["warmup_updates"] else "--"
            axis.plot([*losses], [*losses.values()], label=label, color=colour, linestyle=line, linewidth=1.8)
        axis.set(xlabel="update", ylabel="training loss (bits per token)", title=title)
        tidy(axis)
        axis.legend(frameon=False)
        figure.savefig(out, dpi=160)
        pyplot.close(figure)
