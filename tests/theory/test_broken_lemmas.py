"""Every lemma's check holds for the paper's model, and turns when the model or the statistic is broken."""

from typing import Any

import pytest
import torch
from torch import Tensor

from ln_repro.theory import lemmas, simplified
from ln_repro.theory.simplified import PLACEMENTS, Placement, Weights, feed_forward, layer_norm, xavier
from tests.theory.measured import Finding, found, measure, parts_of, verdict_of

HIDDEN: dict[str, Any] = {"d": 64, "d_ff": 64, "layers": 6, "positions": 8, "sequences": 16}
MEASURED: dict[str, tuple[str, int, dict[str, Any]]] = {
    "TH-1": ("relu", 10, {"d": 64, "sigma": 2.0, "numbers": lemmas.NUMBERS}),
    "TH-2": ("hidden_norms", 60, {**HIDDEN, "norm": "postln"}),
    "TH-3": ("hidden_norms", 60, {**HIDDEN, "norm": "preln"}),
    "TH-4": ("jacobian", 10, {"d": 64}),
    "TH-5": ("hidden_norms", 20, {**HIDDEN, "d": 512, "layers": 2, "sequences": 32}),
}
"""By claim, the measurement, the number of seeds, and the settings."""


def judged(claim: str, **changed: Any) -> Finding:
    """Return the finding on a claim from its measurements, with some settings changed."""
    what, seeds, settings = MEASURED[claim]
    return found(claim, measure(what, seeds, **{**settings, **changed}))


@pytest.mark.parametrize(
    ("claim", "changed"),
    [("TH-1", {}), ("TH-2", {}), ("TH-2", {"d_ff": 256}), ("TH-3", {}), ("TH-3", {"d_ff": 256}),
     ("TH-5", {"norm": "postln"}), ("TH-5", {"norm": "preln"})],
)  # fmt: skip
def test_a_lemma_holds(claim: str, changed: dict[str, Any]) -> None:
    assert judged(claim, **changed)["verdict"] == "reproduced"


def test_lemma_3_holds_to_rounding() -> None:
    finding = judged("TH-4")
    assert finding["verdict"] == "reproduced"
    assert parts_of(finding, "autograd less closed form")[0]["interval"][1] < 1e-12


def outputs(x: Tensor, weights: Weights) -> tuple[Tensor, Tensor]:
    """Compute a layer of Post-LN whose hidden state is its output instead of x5."""
    out, _ = simplified.post_layer(x, weights)
    return out, out


def unbiased(x: Tensor) -> Tensor:
    return (x - x.mean()) / x.std()


def with_epsilon(x: Tensor) -> Tensor:
    return torch.nn.functional.layer_norm(x, x.shape, eps=1e-5)


def root_mean_square(x: Tensor) -> Tensor:
    return x / x.square().mean().sqrt()


MOVED = {"postln": PLACEMENTS["preln"], "preln": PLACEMENTS["postln"]}
BROKEN: dict[str, tuple[str, dict[str, Any], Any, str, Any]] = {
    "another moment": ("TH-1", {}, lemmas, "relu_moment", lambda d, sigma: 0.95 * sigma**2 * d / 2),
    "another gain in Post-LN": ("TH-2", {}, simplified, "xavier", lambda *shape: 1.2 * xavier(*shape)),
    "another gain in Pre-LN": ("TH-3", {}, simplified, "xavier", lambda *shape: 1.2 * xavier(*shape)),
    "the norm of Pre-LN": ("TH-2", {}, simplified, "PLACEMENTS", MOVED),
    "the norm of Post-LN": ("TH-3", {}, simplified, "PLACEMENTS", MOVED),
    "the state after the last norm": ("TH-2", {}, simplified, "PLACEMENTS", {"postln": Placement(outputs, layer_norm)}),
    "the share of d_ff = d": ("TH-2", {"d_ff": 256}, lemmas, "feed_forward_share", lambda d, d_ff: 0.5),
    "an unbiased variance": ("TH-4", {}, lemmas, "layer_norm", unbiased),
    "an epsilon": ("TH-4", {}, lemmas, "layer_norm", with_epsilon),
    "a norm that does not centre": ("TH-4", {}, lemmas, "layer_norm", root_mean_square),
}
"""By what is wrong, the claim with its settings, and the function that is replaced."""


@pytest.mark.parametrize(("claim", "changed", "module", "name", "broken"), BROKEN.values(), ids=[*BROKEN])
def test_a_lemma_fails_with(
    claim: str, changed: dict[str, Any], module: Any, name: str, broken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, broken)
    assert judged(claim, **changed)["verdict"] == "contradicted"


def test_lemma_2_pre_fails_if_layers_are_counted_from_the_input() -> None:
    what, seeds, settings = MEASURED["TH-3"]
    measured = measure(what, seeds, **settings)
    for _, values in measured:
        values["square"] = [1.0, *values["square"][:-1]]
    assert verdict_of("TH-3", measured) == "contradicted"


def test_boundedness_fails_without_the_norm_that_makes_positions_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs of uneven size stay uneven if the norm on the stream is taken out."""

    def layer(x: Tensor, weights: Weights) -> tuple[Tensor, Tensor]:
        x5 = x + feed_forward(layer_norm(x), weights)
        return x5, x5

    honest = simplified.inputs
    uneven = torch.linspace(1, 3, 8)[:, None]
    monkeypatch.setattr(simplified, "inputs", lambda *drawn: honest(*drawn) * uneven)
    assert judged("TH-5", norm="postln")["verdict"] == "reproduced"
    monkeypatch.setitem(PLACEMENTS, "postln", Placement(layer, lambda x: x))
    assert judged("TH-5", norm="postln")["verdict"] == "contradicted"
