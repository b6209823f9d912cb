"""The simplified model against torch's own modules and against gradients by hand."""

import pytest
import torch
import torch.nn.functional as F

from ln_repro.theory import simplified
from ln_repro.theory.simplified import PLACEMENTS, Weights, forward, layer_norm, xavier
from ln_repro.theory.unit import Unit

pytestmark = pytest.mark.usefixtures("double")


@pytest.fixture
def weights() -> Weights:
    draw = torch.Generator().manual_seed(1)
    return Weights(xavier(16, 16, draw), xavier(16, 24, draw), xavier(24, 16, draw))


def torch_layer(weights: Weights, pre: bool) -> torch.nn.TransformerEncoderLayer:
    """Build torch's own encoder layer with W_Q = W_K = 0, W_O = I and no biases."""
    layer = torch.nn.TransformerEncoderLayer(16, 1, 24, dropout=0.0, batch_first=True, norm_first=pre, bias=False,
                                             layer_norm_eps=0.0)  # fmt: skip
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
    out, _ = PLACEMENTS[norm].layer(x, weights)
    torch.testing.assert_close(out, torch_layer(weights, norm == "preln")(x))


@pytest.mark.parametrize("norm", ["postln", "preln"])
def test_gradients_are_those_of_the_loss(norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One position: dL/dW2 of the last layer is ReLU(x W1)^T times (p - y) W_emb through the norm's Jacobian."""
    monkeypatch.setattr(simplified, "VOCABULARY", 20)
    unit = Unit.of("gradients", 1, d=16, d_ff=24, layers=1, norm=norm, positions=1, sequences=1, batches=1)
    draw = unit.generator()
    (weights,) = simplified.stack(unit, draw)
    embedding = torch.randn(20, 16, generator=draw) / 4
    x = simplified.inputs(unit, draw)
    out, (state,) = forward(x, [weights], PLACEMENTS[norm])
    target = torch.randint(20, (1,), generator=draw)
    error = (embedding @ out.flatten()).softmax(0) - F.one_hot(target, 20).flatten()
    seen = layer_norm(x + x @ weights.value) if norm == "postln" else layer_norm(x + layer_norm(x) @ weights.value)
    through = torch.autograd.functional.jacobian(layer_norm, state.flatten()).T @ (error @ embedding)
    expected = float((seen @ weights.first).relu().norm() * through.norm())
    found = simplified.gradients(unit)
    assert found["norm_of_mean"] == pytest.approx([expected])
    assert found["square"] == pytest.approx(float(state.square().sum()) / 16)
