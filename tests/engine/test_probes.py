"""Probes against their definitions: gradient norms, curvature, changes; interventions on the update."""

import math
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from ln_repro.engine.plugin.optimizers import cap_changes, preconditioner, threshold
from ln_repro.engine.probing import Probing
from ln_repro.model.probes.curvature import Sharpness, mean_loss
from ln_repro.model.probes.norms import gradient_norms, layer_weights, relative_changes
from tests.engine.made import adam, criterion, sample, sgd
from tests.examples import experiment

pytestmark = pytest.mark.usefixtures("double")
SIZE = {"layers": 2, "width": 16, "ffn": 32, "heads": 2}


@pytest.mark.parametrize("eigenvalues", [(1.0, 3.0, 7.0), (-9.0, 1.0, 2.0)])
def test_the_sharpness_of_a_quadratic_is_its_largest_eigenvalue(eigenvalues):
    """The largest one, also if one of larger absolute value is negative."""
    rotation = torch.linalg.qr(torch.randn(100, 100, generator=torch.Generator().manual_seed(1)))[0]
    spectrum = torch.cat([torch.tensor(eigenvalues), torch.linspace(0.0, 0.9 * max(eigenvalues), 97)])
    hessian = rotation @ torch.diag(spectrum) @ rotation.T
    x = nn.Parameter(torch.randn(100))
    losses = [lambda: x @ hessian @ x / 4, lambda: 3 * (x @ hessian @ x) / 4]  # their mean has this Hessian
    parameters = [x, nn.Parameter(torch.randn(3))]  # one is unused, as may happen in a user's scheme
    value, products = (sharpness := Sharpness())(parameters, losses, lambda _: torch.ones(103))
    assert value == pytest.approx(max(eigenvalues), rel=0.02)
    again, fewer = sharpness(parameters, losses, lambda _: torch.ones(103))  # starts from the eigenvector
    assert again == pytest.approx(max(eigenvalues), rel=0.02) and fewer < products


def test_the_sharpness_of_a_network_is_that_of_its_full_preconditioned_hessian():
    net = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
    draw = torch.Generator().manual_seed(2)
    x, y = torch.randn(20, 5, generator=draw), torch.randint(0, 3, (20,), generator=draw)
    parameters = list(net.parameters())
    optimizer = adam(parameters)

    def loss():
        return nn.functional.cross_entropy(net(x), y)

    for _ in range(3):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    value, _ = Sharpness()(parameters, [loss], partial(preconditioner, optimizer, parameters))

    def of_flat(flat):
        parts = flat.split([p.numel() for p in parameters])
        weights = {name: part.view_as(p) for part, (name, p) in zip(parts, net.named_parameters(), strict=True)}
        return nn.functional.cross_entropy(torch.func.functional_call(net, weights, x), y)

    flat = nn.utils.parameters_to_vector(parameters).detach()
    hessian = torch.autograd.functional.hessian(of_flat, flat)
    diagonal = preconditioner(optimizer, parameters, torch.autograd.grad(loss(), parameters))
    expected = torch.linalg.eigvals(hessian / diagonal[:, None]).real.max().item()
    assert value == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("start", ["zero", "gradient"])
def test_the_preconditioner_is_that_of_the_next_step_of_adam(start):
    """Without a first moment (beta1 = 0), a step is the learning rate times the gradient over P."""
    x = nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
    optimizer = adam([x], betas=(0.0, 0.98), second_moment=start)
    for scale in (1.0, 0.5, 2.0):
        x.grad = torch.tensor([0.1, 3.0, -1.0]) * scale
        expected = x.detach() - 0.1 * x.grad / preconditioner(optimizer, [x], [x.grad])
        optimizer.step()
        torch.testing.assert_close(x.detach(), expected)


def test_thresholds_of_stability():
    x = nn.Parameter(torch.ones(2))
    assert threshold(adam([x])) == pytest.approx(38)
    assert threshold(sgd([x])) == 2 and preconditioner(sgd([x]), [x], [x]).tolist() == [1, 1]


@pytest.mark.parametrize(("layers", "cap", "clip_norm"), [([[]], 0.0, 0.0), ((), 0.1, 0.0), ((), 0.0, 1.0)])
def test_there_is_no_curvature_if_steps_are_not_those_of_the_preconditioner(layers, cap, clip_norm):
    optimizer = SimpleNamespace(layers=layers, cfg=SimpleNamespace(max_relative_update=cap))
    probing = Probing(SimpleNamespace(optimizer=optimizer, experiment=experiment(train__clip_norm=clip_norm)), None)
    probing.kinds = ("curvature",)
    assert [*probing.values()] == []


def test_the_loss_with_second_derivatives_is_the_training_loss(build_model):
    model = build_model(norm="postln", dropout=0.1, **SIZE).eval()
    padded = sample(1)
    padded["target"][0, 3:] = 1
    padded["ntokens"] = 15
    expected = criterion()(model, padded)[0] / 15  # in fp32
    torch.testing.assert_close(mean_loss(criterion(), model, padded).float(), expected, rtol=1e-5, atol=0)


def test_relative_changes_of_weights_and_outputs(build_model):
    model = build_model(norm="preln", **SIZE).eval()
    samples = [sample(1), sample(2)]
    before = [parameter.detach().clone() for parameter in model.parameters()]
    stack = model.decoder.stack
    outputs = {stack.layers[1].ffn_residual: [], stack.norm: []}  # the last connection, and the final norm of Pre-LN
    hooks = [each.register_forward_hook(lambda module, _, y: outputs[module].append(y.detach())) for each in outputs]
    for factor in (1.0, 1.02):
        with torch.no_grad():
            stack.layers[1].ffn.fc2.weight.mul_(factor)
        for batch in samples:
            model(**batch["net_input"])
    for hook in hooks:
        hook.remove()
    changed = [parameter.detach().clone() for parameter in model.parameters()]
    changes = relative_changes(model, before, samples)
    assert all(torch.equal(*pair) for pair in zip(model.parameters(), changed, strict=True))
    assert changes["weights"]["decoder.w2"] == [0.0, pytest.approx(0.02)]
    assert changes["weights"]["encoder.w1"] == [0.0, 0.0]
    assert changes["outputs"]["encoder"] == [0.0] * 5 and changes["outputs"]["decoder"][:5] == [0.0] * 5
    pairs = [(torch.cat(of_module[:2], 1), torch.cat(of_module[2:], 1)) for of_module in outputs.values()]
    expected = [((new - old).norm() / old.norm()).item() for old, new in pairs]
    assert changes["outputs"]["decoder"][5:] == pytest.approx(expected)


def test_a_capped_step_has_the_same_direction():
    values = torch.randn(4, 3, generator=torch.Generator().manual_seed(1)), torch.ones(3)
    gradients = [torch.randn(value.shape, generator=torch.Generator().manual_seed(2)) for value in values]

    def changes(most):
        parameters = [nn.Parameter(value.clone()) for value in values]
        optimizer = adam(parameters, max_relative_update=most)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient.clone()
        optimizer.step()
        return [parameter.detach() - value for parameter, value in zip(parameters, values, strict=True)]

    free, capped = changes(None), changes(0.01)
    assert free[0].norm() > 0.02 * values[0].norm()
    assert capped[0].norm().item() == pytest.approx(0.01 * values[0].norm().item())
    torch.testing.assert_close(capped[0] / capped[0].norm(), free[0] / free[0].norm())
    assert torch.equal(capped[1], free[1])  # biases and gains of norms are not matrices
    torch.testing.assert_close(changes(10.0), free)
    matrix = torch.full((2, 2), 3.0)
    cap_changes([matrix], [torch.zeros(2, 2)], 0.01)  # a matrix that was zero
    assert matrix.tolist() == [[3.0, 3.0], [3.0, 3.0]]


def test_a_second_moment_started_at_the_gradient_shortens_the_first_steps():
    """At step t of a constant gradient, Adam's step is eta, and that of GI-Adam eta sqrt(1 - beta2^t)."""
    x = nn.Parameter(torch.zeros(3))
    optimizer = adam([x], second_moment="gradient")
    gradient, before = torch.tensor([1.0, -10.0, 0.3]), torch.zeros(3)
    for t in range(1, 6):
        x.grad = gradient.clone()
        optimizer.step()
        expected = -0.1 * math.sqrt(1 - 0.98**t) * gradient.sign()
        torch.testing.assert_close(x.detach() - before, expected)
        before = x.detach().clone()
        if t == 2:  # a resumed run does not start the second moment again
            state, optimizer = optimizer.state_dict(), adam([x], second_moment="gradient")
            optimizer.load_state_dict(state)


def test_every_weight_matrix_of_every_layer_has_a_name(build_model):
    model = build_model(norm="postln", **SIZE)
    weights = layer_weights(**model.stacks)
    assert weights["decoder.w2"][1] is model.decoder.stack.layers[1].ffn.fc2.weight
    assert weights["encoder.w1"][0] is model.encoder.stack.layers[0].ffn.fc1.weight
    assert weights["decoder.cross.q"][1] is model.decoder.stack.layers[1].cross_attn.q_proj.weight
    matrices = [p for stack in model.stacks.values() for p in stack.parameters() if p.dim() == 2]
    assert sum(len(of_kind) for of_kind in weights.values()) == len(matrices)


def test_the_norm_is_that_of_the_mean_and_not_the_mean_of_norms(build_model):
    model = build_model(norm="postln", **SIZE).eval()
    tokens = [torch.randint(4, 40, (2, 5), generator=torch.Generator().manual_seed(n)) for n in range(3)]

    def loss(batch):
        return model(batch, torch.tensor([5, 5]), batch)[0].square().mean()

    weight = model.decoder.stack.layers[1].ffn.fc2.weight
    weight.grad = torch.ones_like(weight)
    norms = gradient_norms(layer_weights(**model.stacks), [lambda b=b: loss(b) for b in tokens])
    assert weight.grad.eq(1).all()
    gradients = torch.stack([torch.autograd.grad(loss(batch), weight)[0] for batch in tokens])
    mean = gradients.mean(0)
    expected = {
        "norm_of_mean": mean.norm().item(),
        "mean_of_norms": gradients.flatten(1).norm(dim=1).mean().item(),
        "noise": ((gradients - mean).square().sum() / 2).sqrt().item(),
    }
    assert {name: norms[name]["decoder.w2"][1] for name in expected} == pytest.approx(expected)
    assert expected["mean_of_norms"] > expected["norm_of_mean"] * 1.01
