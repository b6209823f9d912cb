"""The data of the figure of gradients at initialisation: means and intervals over seeds, by layer or by depth."""

from ln_repro.system.files import Json
from ln_repro.theory import judge
from ln_repro.theory.judge import Series, series
from ln_repro.theory.plan import NORMS
from ln_repro.theory.unit import Measured, select


def figures(measured: Measured) -> Json:
    """Return the panels of figure 3, if they were measured for both norms, by matrix and for the last W2 by depth.

    A panel maps the label of a series, the norm placement and what else tells it apart, to its points.
    """
    if not all(select(measured, ("real_gradients",), {"norm": norm}) for norm in NORMS):
        return {}
    by_layer = {matrix: _by_layer(measured, f"decoder.{matrix}") for matrix in ("w1", "w2")}
    by_depth = {norm: series(judge.last_layer(measured, norm)) for norm in NORMS}
    return {"initialisation": {**by_layer, "last": by_depth}}


def _by_layer(measured: Measured, weight: str) -> dict[str, Series]:
    """Return the gradients of a decoder's weight by layer, with and without the output of cross-attention."""
    curves = {norm: judge.by_layer(measured, norm, weight) for norm in NORMS}
    uncrossed = judge.by_layer(measured, "postln", weight, "real_uncrossed_gradients")
    curves |= {"postln without cross-attention": uncrossed} if uncrossed else {}
    return {label: series(of_label) for label, of_label in curves.items()}
