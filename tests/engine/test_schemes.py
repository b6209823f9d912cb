"""The schemes that followed the paper: their formulas, constants and starts, against the papers' own tables."""

import math

import pytest
import torch
from torch import nn

from ln_repro.engine.plugin.layers import measure
from ln_repro.engine.plugin.residual import Place
from ln_repro.engine.plugin.schemes.registry import SCHEMES
from ln_repro.engine.plugin.schemes.weighted import Admin, AdminClosed, DeepNorm, ReZero
from tests.examples import norm_parameters

pytestmark = pytest.mark.usefixtures("double")
WIDTH = 32
SMALL = {"layers": 2, "width": WIDTH, "ffn": 48, "heads": 4, "dropout": 0.1, "share_embeddings": True}


def encoder(layers=6):
    return Place(False, layers, layers)


def decoder(layers=6):
    return Place(True, layers, layers)


def branch(x):
    return 2 * x.flip(-1) + 1


def layer_norm(x):
    return nn.functional.layer_norm(x, x.shape[-1:])


@pytest.mark.parametrize(
    ("norm", "expected"),
    [
        ("deepnorm", lambda x: layer_norm((3 * 6) ** 0.25 * x + branch(x))),
        ("rezero", lambda x: x + 0.5 * branch(x)),
        ("admin", lambda x: layer_norm(0.5 * x + branch(x))),
        ("admin_closed", lambda x: layer_norm(0.5 * x + branch(x))),
    ],
)
def test_a_scheme_is_its_formula(norm, expected):
    residual = SCHEMES[norm](WIDTH, 0.0, decoder())
    for name, parameter in residual.named_parameters():
        if name in ("alpha", "omega"):
            nn.init.constant_(parameter, 0.5)
    x = torch.randn(5, 3, WIDTH)
    torch.testing.assert_close(residual(x, branch), expected(x))


@pytest.mark.parametrize(
    ("layers", "enc_alpha", "enc_beta", "dec_alpha", "dec_beta"),
    [
        (6, 1.4179, 0.4970, 2.0598, 0.3433),
        (18, 1.9987, 0.3526, 2.7108, 0.2608),
        (100, 3.4157, 0.2063, 4.1618, 0.1699),
    ],
)
def test_the_constants_of_deepnorm_are_those_of_its_paper(layers, enc_alpha, enc_beta, dec_alpha, dec_beta):
    assert DeepNorm.constants(encoder(layers)) == pytest.approx((enc_alpha, enc_beta), abs=1e-4)
    assert DeepNorm.constants(decoder(layers)) == pytest.approx((dec_alpha, dec_beta), abs=1e-4)
    alone = DeepNorm.constants(Place(False, layers, 0))
    assert alone == pytest.approx(((2 * layers) ** 0.25, (8 * layers) ** -0.25))


@pytest.mark.parametrize(("place", "omega"), [(encoder(6), 2.017), (decoder(6), 2.335)])
def test_the_closed_form_of_admin(place, omega):
    residual = AdminClosed(WIDTH, 0.0, place)
    assert residual.omega.tolist() == pytest.approx([omega] * WIDTH, abs=1e-3)


def test_deepnorm_starts_with_lighter_branches_and_nothing_else(build_model):
    plain = build_model(norm="postln", init="xavier", **SMALL).state_dict()
    model = build_model(norm="deepnorm", init="xavier", **SMALL)
    assert model.state_dict().keys() == plain.keys()
    for name, values in model.state_dict().items():
        lighter = name.endswith(("v_proj.weight", "out_proj.weight", "fc1.weight", "fc2.weight"))
        beta = DeepNorm.constants(encoder(2) if name.startswith("encoder") else decoder(2))[1] if lighter else 1.0
        torch.testing.assert_close(values, beta * plain[name])


def test_rezero_has_no_norm_and_starts_as_the_identity(build_model):
    model = build_model(norm="rezero", **SMALL).eval()
    assert not any(isinstance(module, nn.LayerNorm) for module in model.modules())
    x = torch.randn(4, 2, WIDTH)
    torch.testing.assert_close(model.encoder.stack(x, None), x, rtol=0, atol=0)
    assert sum(isinstance(module, ReZero) for module in model.modules()) == 2 * (2 + 3)


def test_admin_starts_from_what_a_mini_batch_gathers(build_model):
    """Each weight is the standard deviation of the stream so far, as an ordinary pass shows it."""
    model = build_model(norm="admin", **SMALL).train()
    source, target = torch.randint(4, 40, (3, 6)), torch.randint(4, 40, (3, 5))
    measure(model, lambda: model(source, None, target))
    assert model.training
    model.eval()
    seen = []
    for module in model.modules():
        if isinstance(module, Admin):
            module.register_forward_pre_hook(lambda one, given: seen.append((one.omega, given[0], given[1](given[0]))))
    with torch.no_grad():
        model(source, None, target)
    assert len(seen) == 2 * (2 + 3)
    for sub_layers in (seen[:4], seen[4:]):  # the encoder's chain and the decoder's, each from 1
        gathered = 1.0
        for omega, x, out in sub_layers:
            assert omega.tolist() == pytest.approx([gathered] * WIDTH)
            gathered = math.sqrt((gathered * x).var() + out.var())
        assert gathered > 1.05


@pytest.mark.parametrize("norm", [name for name in SCHEMES if name != "admin"])
def test_other_schemes_start_without_a_forward_pass(build_model, norm):
    measure(build_model(norm=norm, **SMALL), lambda: pytest.fail("a mini-batch was passed through the model"))


@pytest.mark.parametrize("norm", SCHEMES)
def test_every_parameter_learns_and_the_count_is_the_closed_form(build_model, norm):
    model = build_model(60, norm=norm, **SMALL)
    tokens = torch.randint(4, 60, (3, 6))
    for _ in range(3):  # in ReZero the decoder learns from the second update on, then the encoder
        logits, _ = model(tokens, None, tokens)
        logits.flatten(0, 1).log_softmax(-1)[range(18), tokens.flatten()].sum().neg().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 1e-3 * parameter.grad
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []
    linear = 2 * (3 * 4 * WIDTH * (WIDTH + 1) + 2 * (2 * WIDTH * 48 + 48 + WIDTH))
    own = norm_parameters(norm, 2, WIDTH, 48, 4, words=60)
    assert sum(p.numel() for p in model.parameters()) == 60 * WIDTH + linear + own
