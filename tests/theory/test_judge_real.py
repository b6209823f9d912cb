"""Verdicts on the real models, and that each of them can turn."""

from collections.abc import Callable

import pytest

from ln_repro.theory import judge_real
from ln_repro.theory.figures import figure_3
from ln_repro.theory.unit import Measured, Unit

DEPTHS, SEEDS = (6, 8, 10, 12, 14), 5
Curve = Callable[[str, int, int], float]
"""The gradient of a layer: norm, layers of the model, layer."""


def as_the_paper(norm: str, layers: int, layer: int) -> float:
    return float(1.6 * 1.5 ** (layer - layers)) if norm == "postln" else 1.2 * layers**-0.5 * 1.05 ** (layers - layer)


def measured(
    curve: Curve = as_the_paper, seeds: int = SEEDS, stream: float = 1 + 4 / 9, share: float = 0.06
) -> Measured:
    """Return measurements in which the gradients follow ``curve``, a little different for every seed."""
    made = []
    for norm in ("postln", "preln"):
        for seed in range(1, seeds + 1):
            noise = 1 + 0.01 * seed
            for layers in DEPTHS:
                gradients = [curve(norm, layers, layer) * noise for layer in range(1, layers + 1)]
                weights = {f"{stack}.{w}": gradients for stack in ("encoder", "decoder") for w in ("w1", "w2")}
                norms = {"norm_of_mean": weights, "mean_of_norms": weights}
                made.append((Unit.of("real_gradients", seed, norm=norm, layers=layers, tied=False), norms))
                for tied in (False, True):
                    made.append((Unit.of("real_last_gradient", seed, norm=norm, layers=layers, tied=tied), norms))
            squared = [stream] * 6 if norm == "postln" else [1.5 + passed * (stream - 0.5) for passed in range(1, 7)]
            found = {"input": 1.5, "squared": [square * noise / 1.03 for square in squared], "above": [share / 3] * 6,
                     "above_squared": [share * noise] * 6}  # fmt: skip
            made.append((Unit.of("real_hidden_states", seed, norm=norm, layers=6, width=512, ffn=1024),
                         {"encoder": found, "decoder": found}))  # fmt: skip
    return made


JUDGES = {
    "TH-6": judge_real.last_layer_post,
    "TH-7": judge_real.last_layer_pre,
    "TH-7-tied": judge_real.last_layer_pre_tied,
    "TH-8": judge_real.layers_post,
    "TH-9": judge_real.layers_pre,
    "TH-2-real": judge_real.stream_post,
    "TH-3-real": judge_real.stream_pre,
    "TH-5": judge_real.boundedness_real,
}


@pytest.mark.parametrize("name", JUDGES)
def test_what_agrees_with_the_paper_is_reproduced_unless_draws_are_few(name: str) -> None:
    found = JUDGES[name](measured())
    assert (found.id, found.verdict, found.seeds) == (name, "reproduced", SEEDS)
    assert JUDGES[name](measured(seeds=4)).verdict == "inconclusive"


@pytest.mark.parametrize(
    ("name", "curve"),
    [
        ("TH-6", lambda norm, layers, layer: 1.6 * (layers / 6) ** 0.5),  # O(sqrt L), as some summaries have it
        ("TH-6", lambda norm, layers, layer: 16.0),  # a sum over tokens for a mean
        ("TH-7", lambda norm, layers, layer: 0.4),  # Post-LN's behaviour
        ("TH-7", lambda norm, layers, layer: 3 / layers),  # an exponent of -1
        ("TH-7-tied", lambda norm, layers, layer: 0.4),
        ("TH-8", lambda norm, layers, layer: 1.6),  # a final norm that evens everything out
        ("TH-8", lambda norm, layers, layer: 1.6 * 1.5**-layer),  # layers counted from the other end
        ("TH-9", lambda norm, layers, layer: as_the_paper("postln", layers, layer)),  # the norm on the stream
    ],
)
def test_a_model_that_does_something_else_turns_the_verdict(name: str, curve: Curve) -> None:
    assert JUDGES[name](measured(curve)).verdict == "contradicted"


def test_a_wrong_scale_of_the_stream_turns_the_verdict() -> None:
    assert judge_real.stream_post(measured(stream=1.056)).verdict == "contradicted"  # torch's default initialisation
    assert judge_real.stream_post(measured(stream=1.0)).verdict == "contradicted"  # measured after the norm
    assert judge_real.stream_pre(measured(stream=0.6)).verdict == "contradicted"  # branches that start small
    assert judge_real.boundedness_real(measured(share=0.3)).verdict == "contradicted"


def test_the_figure_has_the_papers_four_panels() -> None:
    panels = figure_3(measured())
    assert list(panels) == ["a", "b", "c", "d"]
    assert set(panels["b"]) == {f"{n} {s}" for n in ("postln", "preln") for s in ("encoder", "decoder")}
    assert list(panels["a"]["postln decoder"]) == ["1", "2", "3", "4", "5", "6"]
    mean, low, high = panels["c"]["postln decoder"]["14"]
    assert low < mean < high and mean == pytest.approx(1.6 * 1.03)
    assert list(panels["d"]["preln decoder"]) == [str(depth) for depth in DEPTHS]
