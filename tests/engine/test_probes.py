"""The gradient norms that a probe reports, against their definitions; it does not change the training."""

import pytest
import torch

from ln_repro.model.probes.gradients import gradient_norms, layer_weights

SIZE = {"norm": "postln", "layers": 3, "width": 16, "ffn": 32, "heads": 2}


def test_every_weight_matrix_of_every_layer_has_a_name(build_model):
    model = build_model(**SIZE)
    weights = layer_weights(**model.stacks)
    assert all(len(of_kind) == 3 for of_kind in weights.values())
    assert weights["decoder.w2"][2] is model.decoder.stack.layers[2].ffn.fc2.weight
    assert weights["encoder.w1"][0] is model.encoder.stack.layers[0].ffn.fc1.weight
    assert weights["decoder.cross.q"][1] is model.decoder.stack.layers[1].cross_attn.q_proj.weight
    assert "encoder.cross.q" not in weights
    matrices = [p for s in model.stacks.values() for p in s.parameters() if p.dim() == 2]
    assert sum(len(of_kind) for of_kind in weights.values()) == len(matrices)


@pytest.mark.usefixtures("double")
def test_the_norm_is_that_of_the_mean_and_not_the_mean_of_norms(build_model):
    model = build_model(**SIZE).eval()
    weights = layer_weights(**model.stacks)
    tokens = [torch.randint(4, 40, (2, 5), generator=torch.Generator().manual_seed(n)) for n in range(3)]

    def loss(batch):
        return model(batch, torch.tensor([5, 5]), batch)[0].square().mean()

    weight = model.decoder.stack.layers[1].ffn.fc2.weight
    weight.grad = torch.ones_like(weight)
    norms = gradient_norms(weights, [lambda b=b: loss(b) for b in tokens])
    assert weight.grad.eq(1).all()
    gradients = []
    for batch in tokens:
        model.zero_grad()
        loss(batch).backward()
        gradients.append(model.decoder.stack.layers[1].ffn.fc2.weight.grad.clone())
    expected = torch.stack(gradients).mean(0).norm().item()
    assert norms["norm_of_mean"]["decoder.w2"][1] == pytest.approx(expected)
    mistaken = torch.stack([gradient.norm() for gradient in gradients]).mean().item()
    assert norms["mean_of_norms"]["decoder.w2"][1] == pytest.approx(mistaken)
    assert mistaken > expected * 1.01
    deviations = [gradient - torch.stack(gradients).mean(0) for gradient in gradients]
    noise = (sum(deviation.square().sum() for deviation in deviations) / 2).sqrt().item()
    assert norms["noise"]["decoder.w2"][1] == pytest.approx(noise)
