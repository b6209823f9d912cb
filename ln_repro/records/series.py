"""What a record keeps of the events of a run: a thinned training curve and the values of probes that are reported."""

import json
from collections.abc import Sequence
from statistics import fmean

from pydantic import BaseModel

from ln_repro.records.events import Event, rounded
from ln_repro.system.files import Json

POINTS = 60  # of a curve, at most
CURVE_DIGITS = 5  # significant digits of its losses
GRADIENT_NORMS = ("norm_of_mean", "mean_of_norms")
"""The kinds of gradient norms that a record keeps, of one weight; its events have all."""


class TrainingCurve(BaseModel):
    """Updates and training losses, None if not finite."""

    update: list[int] = []
    loss: list[float | None] = []


class Probe(BaseModel):
    """The values of a probe that are reported; None if one of them was not finite."""

    name: str
    update: int
    batches: int
    values: Json | None


def curve(events: Sequence[Event]) -> TrainingCurve:
    """Return at most `POINTS` updates and their training losses, each the mean over equally many events, or None."""
    steps = [event for event in events if event["kind"] == "train"]
    size = max(1, -(-len(steps) // POINTS))
    groups = [steps[start : start + size] for start in range(0, len(steps), size)]
    losses = [[step["loss"] for step in group if step["loss"] is not None] for group in groups]
    return TrainingCurve(
        update=[group[-1]["update"] for group in groups],
        loss=[rounded(fmean(values), CURVE_DIGITS) if values else None for values in losses],
    )


def probes(events: Sequence[Event]) -> list[Probe]:
    """Return the probes of a run.

    Of `collapse`, only probes after 0, 1, 2, 4, ..., 64, 256, 1024, ... updates and the last are kept.
    """
    probed = [event for event in events if event["kind"] == "probe"]
    last = max((event["update"] for event in probed), default=0)
    collapses = {0, last, *(2**n for n in range(7)), *(4**n for n in range(last.bit_length()))}
    return [
        Probe.model_validate({**event, "values": _reported(event["name"], event["values"])})
        for event in probed
        if event["name"] != "collapse" or event["update"] in collapses
    ]


def _reported(name: str, values: Json) -> Json | None:
    """Return the values of a probe that tables and figures use; None if one of all was not finite."""
    if "null" in json.dumps(values):
        return None
    if name == "gradients":
        weight = "decoder.w2" if "decoder.w2" in values["norm_of_mean"] else "encoder.w2"  # as in the paper
        return {kind: {weight: values[kind][weight]} for kind in GRADIENT_NORMS}
    if name == "updates":  # the largest change of a matrix, and that of each stack's output
        largest = max(change for of_kind in values["weights"].values() for change in of_kind)
        return {"weights": largest, "outputs": {stack: changes[-1] for stack, changes in values["outputs"].items()}}
    if name == "collapse":  # all digits of the output alone; the gradient of the first layer
        cosines = {
            stack: [*(rounded(value, 3) for value in layers[:-1]), layers[-1]]
            for stack, layers in values["cosine"].items()
        }
        norms = {w: rounded(layers[0], 3) for w, layers in values["gradient"].items() if w.endswith(".w2")}
        squared = {stack: layers[-1] for stack, layers in values.get("squared_cosine", {}).items()}  # not in old events
        kept = {"cosine": cosines, "gradient": norms, "nll": values["nll"]}
        return kept | ({"squared_cosine": squared} if squared else {})
    return dict(values)
