"""The simplified model is the paper's; each of its checks holds, and fails when model or statistic is broken.

The extension of Theorem 1 to all layers does not hold for the paper's model; it does for what its argument assumes.
"""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ln_repro.model.probes.norms import gradient_norms
from ln_repro.theory import lemmas
from ln_repro.theory.lemmas import PLACEMENTS, Weights, feed_forward, forward, layer_norm, xavier
from ln_repro.theory.unit import Unit
from tests.theory.measured import Finding, finding_of, measure, part_of

POST, PRE = {"norm": "postln"}, {"norm": "preln"}
HIDDEN: dict[str, Any] = {"d": 64, "d_ff": 64, "layers": 6, "positions": 8, "sequences": 16}
GRADIENTS: dict[str, Any] = {"d": 64, "d_ff": 64, "positions": 8, "sequences": 1, "batches": 4}
DEPTHS = (2, 4, 8)
MEASURED: dict[str, tuple[str, int, dict[str, Any]]] = {
    "TH-1": ("relu", 10, {"d": 64, "sigma": 2.0, "numbers": lemmas.NUMBERS}),
    "TH-2": ("hidden_norms", 60, HIDDEN | POST),
    "TH-3": ("hidden_norms", 60, HIDDEN | PRE),
    "TH-4": ("jacobian", 10, {"d": 64}),
    "TH-5": ("hidden_norms", 20, HIDDEN | {"d": 512, "layers": 2, "sequences": 32}),
    "TH-6": ("gradients", 10, GRADIENTS | POST),
    "TH-7": ("gradients", 10, GRADIENTS | PRE),
    "TH-11": ("gradients", 20, GRADIENTS | POST),
}
"""By claim, the measurement, the number of seeds, and the settings; gradients are measured at `DEPTHS`."""


@pytest.fixture(autouse=True)
def few_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lemmas, "VOCABULARY", 1000)


def judged(claim: str, **changed: Any) -> Finding:
    """Return the finding on a claim from its measurements, with some settings changed."""
    what, seeds, settings = MEASURED[claim]
    depths = [{"layers": layers} for layers in DEPTHS] if what == "gradients" else [{}]
    measured = [pair for depth in depths for pair in measure(what, seeds, **(settings | depth | changed))]
    return finding_of(claim, measured)


@pytest.fixture
def weights(double: None) -> Weights:
    draw = torch.Generator().manual_seed(1)
    return Weights(xavier(16, 16, draw), xavier(16, 24, draw), xavier(24, 16, draw))


def torch_layer(weights: Weights, pre: bool) -> torch.nn.TransformerEncoderLayer:
    """Build torch's own encoder layer with W_Q = W_K = 0, W_O = I and no biases."""
    options: dict[str, Any] = {"dropout": 0.0, "batch_first": True, "bias": False, "layer_norm_eps": 0.0}
    layer = torch.nn.TransformerEncoderLayer(16, 1, 24, norm_first=pre, **options)
    with torch.no_grad():
        layer.self_attn.in_proj_weight[:32] = 0
        layer.self_attn.in_proj_weight[32:] = weights.value.T
        layer.self_attn.out_proj.weight.copy_(torch.eye(16))
        layer.linear1.weight.copy_(weights.first.T)
        layer.linear2.weight.copy_(weights.second.T)
    return layer


@pytest.mark.parametrize("norm", ["postln", "preln"])
def test_a_layer_is_torchs_encoder_layer_with_uniform_attention(norm: str, weights: Weights) -> None:
    x = torch.randn(2, 5, 16)
    out, _ = PLACEMENTS[norm](x, weights)
    torch.testing.assert_close(out, torch_layer(weights, norm == "preln")(x))


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("norm", ["postln", "preln"])
def test_gradients_are_those_of_the_loss(norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One position: dL/dW2 of the last layer is ReLU(x W1)^T times (p - y) W_emb through the norm's Jacobian."""
    monkeypatch.setattr(lemmas, "VOCABULARY", 20)
    unit = Unit.of("gradients", 1, d=16, d_ff=24, layers=1, norm=norm, positions=1, sequences=1, batches=1)
    draw = unit.generator()
    (weights,) = lemmas.stack(unit, draw)
    embedding = torch.randn(20, 16, generator=draw) / 4
    x = lemmas.inputs(unit, draw)
    out, (state,) = forward(x, [weights], norm)
    target = torch.randint(20, (1,), generator=draw)
    error = (embedding @ out.flatten()).softmax(0) - F.one_hot(target, 20).flatten()
    seen = layer_norm(x + x @ weights.value) if norm == "postln" else layer_norm(x + layer_norm(x) @ weights.value)
    through = torch.autograd.functional.jacobian(layer_norm, state.flatten()).T @ (error @ embedding)
    expected = float((seen @ weights.first).relu().norm() * through.norm())
    measured = lemmas.gradients(unit)
    assert measured["norm_of_mean"] == {"w2": pytest.approx([expected])}
    assert measured["square"] == pytest.approx(float(state.square().sum()) / 16)


@pytest.mark.parametrize(
    ("claim", "changed"),
    [("TH-1", {}), ("TH-2", {}), ("TH-2", {"d_ff": 256}), ("TH-3", {}), ("TH-3", {"d_ff": 256}), ("TH-4", {}),
     ("TH-5", POST), ("TH-5", PRE), ("TH-6", {}), ("TH-6", {"d_ff": 128}), ("TH-7", {})],
)  # fmt: skip
def test_a_check_holds(claim: str, changed: dict[str, Any]) -> None:
    assert judged(claim, **changed)["verdict"] == "reproduced"


def without_final_norm(*arguments: Any) -> tuple[Tensor, list[Tensor]]:
    _, hidden = forward(*arguments)
    return hidden[-1], hidden


def mean_of_norms(*given: Any) -> dict[str, Any]:
    norms = gradient_norms(*given)
    return {**norms, "norm_of_mean": norms["mean_of_norms"]}


MOVED = {"postln": PLACEMENTS["preln"], "preln": PLACEMENTS["postln"]}
MEAN_LOSS = F.cross_entropy
BROKEN: list[tuple[str, dict[str, Any], Any, str, Any]] = [
    ("TH-1", {}, lemmas, "relu_moment", lambda d, sigma: 0.95 * sigma**2 * d / 2),
    ("TH-2", {}, lemmas, "xavier", lambda *shape: 1.2 * xavier(*shape)),
    ("TH-3", {}, lemmas, "xavier", lambda *shape: 1.2 * xavier(*shape)),
    ("TH-2", {}, lemmas, "PLACEMENTS", MOVED),
    ("TH-3", {}, lemmas, "PLACEMENTS", MOVED),
    ("TH-2", {}, lemmas, "PLACEMENTS", {"postln": lambda *given: (lemmas.post_layer(*given)[0],) * 2}),  # the output
    ("TH-3", {}, lemmas, "PLACEMENTS", {"preln": lambda x, weights: (lemmas.pre_layer(x, weights)[0], x)}),  # the input
    ("TH-2", {"d_ff": 256}, lemmas, "feed_forward_share", lambda d, d_ff: 0.5),  # what it is for d_ff = d
    ("TH-4", {}, lemmas, "layer_norm", lambda x: (x - x.mean()) / x.std()),  # an unbiased variance
    ("TH-4", {}, lemmas, "layer_norm", lambda x: F.layer_norm(x, x.shape, eps=1e-5)),
    ("TH-4", {}, lemmas, "layer_norm", lambda x: x / x.square().mean().sqrt()),  # not centred
    ("TH-6", {}, lemmas, "PLACEMENTS", MOVED),
    ("TH-7", {}, lemmas, "PLACEMENTS", MOVED),
    ("TH-7", {}, lemmas, "forward", without_final_norm),
    ("TH-6", {}, lemmas, "gradient_norms", mean_of_norms),
    ("TH-7", {}, lemmas, "gradient_norms", mean_of_norms),
    ("TH-6", {}, lemmas.F, "cross_entropy", lambda *given: len(given[1]) * MEAN_LOSS(*given)),
    ("TH-11", {}, lemmas, "layer_norm", layer_norm),
]
"""The claim, changed settings, and the function that is replaced; the paper's own model breaks the last claim."""


@pytest.mark.parametrize(("claim", "changed", "module", "name", "broken"), BROKEN)
def test_a_check_fails(claim, changed, module, name, broken, monkeypatch) -> None:
    monkeypatch.setattr(module, name, broken)
    assert judged(claim, **changed)["verdict"] == "contradicted"


def test_boundedness_fails_without_the_norm_that_makes_positions_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs of uneven size stay uneven if the norm on the stream is removed."""

    def layer(x: Tensor, weights: Weights) -> tuple[Tensor, Tensor]:
        x5 = x + feed_forward(layer_norm(x), weights)
        return x5, x5

    even = lemmas.inputs
    uneven = torch.linspace(1, 3, 8)[:, None]
    monkeypatch.setattr(lemmas, "inputs", lambda *drawn: even(*drawn) * uneven)
    assert judged("TH-5", norm="postln")["verdict"] == "reproduced"
    monkeypatch.setitem(PLACEMENTS, "postln", layer)
    assert judged("TH-5", norm="postln")["verdict"] == "contradicted"


def test_gradients_would_shrink_if_only_one_norm_a_layer_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the argument assumes: no gradient through the branches, one norm."""

    def layer(x: Tensor, weights: Weights) -> tuple[Tensor, Tensor]:
        x5 = x + feed_forward(x.detach(), weights)
        return layer_norm(x5), x5

    monkeypatch.setitem(PLACEMENTS, "postln", layer)
    explanation = part_of(judged("TH-11"), "ratio a layer (explanation)")
    assert explanation["settings"]["d=64 d_ff=64 layers=8"] == pytest.approx([1.5**0.5, 1.5**0.5], rel=0.05)
