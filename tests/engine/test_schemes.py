"""Every scheme against the formulas of its paper, written as plain functions; its constants and initial weights."""

import math

import pytest
import torch
from torch import nn

from ln_repro.model import init
from ln_repro.model.layers import DecoderLayer, EncoderLayer, Shape, Stack
from ln_repro.model.residual import Place
from ln_repro.model.schemes.later import Admin, DeepNorm, initialise_admin
from ln_repro.model.schemes.ngpt import FIRST_RATE
from ln_repro.model.schemes.registry import SCHEMES
from ln_repro.model.sub_layers import Attention, FeedForward

pytestmark = pytest.mark.usefixtures("double")
LAYERS, WIDTH, FFN, HEADS, TIME, BATCH = 4, 16, 24, 2, 5, 3
ENCODER, DECODER = ("self_attn", "ffn"), ("self_attn", "cross_attn", "ffn")


def unit(x):
    return x / x.norm(dim=-1, keepdim=True)


class Written:
    """A stack whose weights are those of another one, and whose formulas are the methods below."""

    def __init__(self, stack, memory):
        self.weights, self.memory = stack.state_dict(), memory
        self.kinds = ENCODER if memory is None else DECODER

    def each(self):
        """Yield layer and kind of every sub-layer in order."""
        return ((layer, kind) for layer in range(LAYERS) for kind in self.kinds)

    def norm(self, x, name):
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight + bias

    def own(self, x, layer, kind, name="norm"):
        return self.norm(x, f"layers.{layer}.{kind}_residual.{name}")

    def linear(self, x, name):
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def branch(self, x, layer, kind, q=None, k=None, v=None, inner=None, scale=(WIDTH / HEADS) ** -0.5):
        """Return the output of a sub-layer; functions of (tensor, name of its weights) act on parts of it."""
        same = lambda x, name: x  # noqa: E731
        path, inner = f"layers.{layer}.{kind}", inner or same
        if kind == "ffn":
            hidden = self.linear(x, f"{path}.fc1").clamp(min=0)
            return self.linear(inner(hidden, f"{path}.inner"), f"{path}.fc2")
        source = self.memory if kind == "cross_attn" else x
        heads = {
            name: (norm or same)(
                self.linear(inputs, f"{path}.{name}_proj").view(len(inputs), BATCH, HEADS, -1), f"{path}.{name}_norm"
            )
            for name, inputs, norm in (("q", x, q), ("k", source, k), ("v", source, v))
        }
        scores = scale * torch.einsum("tbhd,sbhd->bhts", heads["q"], heads["k"])
        if kind == "self_attn" and self.kinds is DECODER:
            scores = scores.masked_fill(torch.ones(TIME, TIME).triu(1).bool(), -torch.inf)
        mixed = torch.einsum("bhts,sbhd->tbhd", scores.softmax(-1), heads["v"]).reshape(x.shape)
        return self.linear(inner(mixed, f"{path}.inner"), f"{path}.out_proj")

    def postln(self, x, weight=lambda layer, kind: 1.0):
        for where in self.each():
            x = self.own(weight(*where) * x + self.branch(x, *where), *where)
        return x

    def preln(self, x):
        for where in self.each():
            x = x + self.branch(self.own(x, *where), *where)
        return self.norm(x, "norm")

    def centred(self, x, factors=(1, 1), part=1.0):
        """A part of the mean over the tokens of a sentence is subtracted from an encoder's branch."""
        for where in self.each():
            out = self.branch(x, *where)
            if self.kinds is ENCODER:
                out = factors[where[1] == "ffn"] * (out - part * out.mean(0))
            x = self.own(x + out, *where)
        return x

    def centredfull(self, x):
        return self.centred(x, (1 / 0.35, 1 / 0.63))

    def shrunk(self, x):
        return self.centred(x, (0.35, 0.63), 0.0)

    def shrunksignal(self, x):
        return self.centred(x, (0.09, 0.47), 0.0)

    centredforward, centredgradient = centred, postln

    def deepnorm(self, x):
        n, decodes = LAYERS, self.kinds is DECODER
        return self.postln(x, lambda layer, kind: (3 * n) ** 0.25 if decodes else 0.81 * (n**4 * n) ** (1 / 16))

    def rezero(self, x):
        for layer, kind in self.each():
            x = x + self.weights[f"layers.{layer}.{kind}_residual.alpha"] * self.branch(x, layer, kind)
        return x

    def admin(self, x):
        return self.postln(x, lambda layer, kind: self.weights[f"layers.{layer}.{kind}_residual.omega"])

    admin_closed = admin

    def residual(self, x):
        total = x
        for where in self.each():
            out = self.branch(x, *where)
            total, x = total + out, self.own(x + out, *where)
        return x + self.own(total, LAYERS - 1, "ffn", "final")

    def siamesenorm(self, x):
        total, x = x, self.own(x, 0, "self_attn", "embedding")
        for where in self.each():
            both = x + self.own(total, *where, "second")
            out = self.branch(self.own(both, *where, "before"), *where)
            divisor = math.sqrt(len(self.kinds) * (where[0] + 1))
            total, x = total + out, self.own(x + out / divisor, *where)
        return self.norm(x + self.own(total, LAYERS - 1, "ffn", "final"), "norm")

    def keel(self, x):
        for where in self.each():
            out = self.branch(self.own(x, *where, "before"), *where)
            alpha = 1 if where[0] == 0 else len(self.kinds) * LAYERS
            x = x + out if where == (0, "self_attn") else self.own(alpha * x + out, *where)
        return x

    def b2t(self, x):
        for layer in range(LAYERS):
            bottom = x
            for kind in self.kinds[:-1]:
                x = self.own(x + self.branch(x, layer, kind), layer, kind)
            x = self.own(bottom + x + self.branch(x, layer, "ffn"), layer, "ffn")
        return x

    def tfixup(self, x):
        for where in self.each():
            x = x + self.branch(x, *where)
        return x

    def periln(self, x):
        x = self.own(x, 0, "self_attn", "embedding")
        for where in self.each():
            x = x + self.own(self.branch(self.own(x, *where), *where), *where, "after")
        return self.norm(x, "norm")

    def lnscale(self, x):
        for layer, kind in self.each():
            x = x + self.branch(self.own(x, layer, kind) / math.sqrt(layer + 1), layer, kind)
        return self.norm(x, "norm")

    def mixln(self, x):
        for where in self.each():
            post = where[0] == 0  # the first quarter of four layers
            x = self.own(x + self.branch(x, *where), *where) if post else x + self.branch(self.own(x, *where), *where)
        return self.norm(x, "norm")

    def normformer(self, x):
        def scaled(mixed, name):
            return mixed * self.weights[f"{name}.weight"].repeat_interleave(WIDTH // HEADS)

        for where in self.each():
            inside = self.norm if where[1] == "ffn" else scaled
            out = self.branch(self.own(x, *where), *where, inner=inside)
            x = x + (out if where[1] == "ffn" else self.own(out, *where, "after"))
        return self.norm(x, "norm")

    def subln(self, x):
        for where in self.each():
            inside = None if where[1] == "cross_attn" else self.norm
            x = x + self.branch(self.own(x, *where), *where, inner=inside)
        return self.norm(x, "norm")

    def hybridnorm(self, x):
        for where in self.each():
            x = self.own(x, *where) if where[1] == "ffn" else x
            x = x + self.branch(x, *where, q=self.norm, k=self.norm, v=self.norm)
        return self.norm(x, "norm")

    def bounded(self, x, inner):
        def norm(x, name):
            return self.weights[f"{name}.weight"] * inner(x, name) + self.weights[f"{name}.bias"]

        for layer, kind in self.each():
            x = x + self.branch(norm(x, f"layers.{layer}.{kind}_residual.norm"), layer, kind)
        return norm(x, "norm")

    def dyt(self, x):
        return self.bounded(x, lambda x, name: torch.tanh(self.weights[f"{name}.alpha"] * x))

    def derf(self, x):
        weights = self.weights
        return self.bounded(x, lambda x, name: torch.erf(weights[f"{name}.alpha"] * x + weights[f"{name}.shift"]))

    def ngpt(self, x):
        def on_sphere(heads, name):
            return unit(heads) * self.weights[f"{name}.weight"] * WIDTH**0.5

        x = unit(x)
        for layer, kind in self.each():
            scaled = (lambda hidden, name: hidden * self.weights[f"{name}.weight"]) if kind == "ffn" else None
            scale = (WIDTH / HEADS) ** 0.5
            out = unit(self.branch(x, layer, kind, q=on_sphere, k=on_sphere, inner=scaled, scale=scale))
            rate = 0.05 * WIDTH**0.5 * self.weights[f"layers.{layer}.{kind}_residual.rate.weight"].abs()
            x = unit(x + rate * (out - x))
        return x


def stack(norm, kind=EncoderLayer):
    """Return a new stack without dropout, initialised by Xavier."""
    made = Stack(kind, Shape(norm, LAYERS, WIDTH, FFN, HEADS, 0.0))
    init.initialise([nn.Embedding(40, WIDTH, 1)], [made], made.scheme.projection(WIDTH, 40), "xavier")
    return made


@pytest.mark.parametrize("norm", SCHEMES)
@pytest.mark.parametrize("kind", [EncoderLayer, DecoderLayer])
@torch.no_grad()
def test_a_stack_is_its_papers_formula(norm, kind):
    made = stack(norm, kind)
    for parameter in made.parameters():  # new biases, norms and factors would have no effect
        parameter += 0.2 * torch.randn_like(parameter)
    x, memory = torch.randn(TIME, BATCH, WIDTH), torch.randn(TIME + 2, BATCH, WIDTH)
    decodes = kind is DecoderLayer
    expected = getattr(Written(made, memory if decodes else None), norm)(x)
    torch.testing.assert_close(made(x, *((memory, None, None) if decodes else (None,))), expected)


@pytest.mark.parametrize("norm", SCHEMES)
@pytest.mark.parametrize("kind", [EncoderLayer, DecoderLayer])
@torch.no_grad()
def test_dropout_applies_to_the_output_of_every_branch(norm, kind):
    """With dropout 1, the output does not depend on the sub-layers."""
    made = Stack(kind, Shape(norm, LAYERS, WIDTH, FFN, HEADS, 1.0))
    for parameter in made.parameters():
        parameter += 0.2 * torch.randn_like(parameter)
    memory = (torch.randn(TIME + 2, BATCH, WIDTH), None, None) if kind is DecoderLayer else (None,)
    x = torch.randn(TIME, BATCH, WIDTH)
    before = made(x, *memory)
    for module in made.modules():
        if isinstance(module, Attention | FeedForward):
            for parameter in module.parameters():
                parameter += torch.randn_like(parameter)
    assert torch.equal(made(x, *memory), before)


@pytest.mark.parametrize(("norm", "learns"), [("centred", False), ("centredforward", True), ("centredgradient", False)])
def test_a_branch_with_centred_gradients_does_not_learn_what_its_tokens_share(norm, learns):
    """Its bias is such a component; with the identity for a norm, no other gradient reaches it."""
    residual, bias = SCHEMES[norm](WIDTH, 0.0, Place(False, 1, 1, 0, "ffn")), torch.randn(WIDTH, requires_grad=True)
    residual.norm = nn.Identity()
    x, real = torch.randn(TIME, BATCH, WIDTH), torch.ones(TIME, BATCH, 1, dtype=torch.bool)
    residual((x, real), lambda y: y.sin() + bias).square().sum().backward()
    assert (bias.grad.norm() > 1e-9) == learns


def place(layers, decoder=False, layer=0, alone=False):
    return Place(decoder, layers, 0 if alone else layers, layer, "ffn")


def places(layers):
    """Return places in the encoder, in the decoder, and in an encoder-only model."""
    return place(layers), place(layers, decoder=True), place(layers, alone=True)


@pytest.mark.parametrize(("norm", "layers", "encoder", "decoder", "alone"), [
    ("deepnorm", 6, 0.4970, 0.3433, 48**-0.25),
    ("deepnorm", 100, 0.2063, 0.1699, 800**-0.25),
    ("subln", 6, 1.547, 1.700, math.sqrt(math.log(12))),
    ("subln", 18, 2.1826, 1.9973, math.sqrt(math.log(36))),
    ("tfixup", 6, 0.4281, 0.3689, 0.4281),
])  # fmt: skip
def test_the_gains_are_those_of_the_papers(norm, layers, encoder, decoder, alone):
    gains = [SCHEMES[norm].gain(where) for where in places(layers)]
    assert gains == pytest.approx([encoder, decoder, alone], abs=1e-3)


@torch.no_grad()
def test_weights_of_the_stream_are_or_start_as_in_the_papers():
    x = torch.randn(TIME, BATCH, WIDTH)
    assert torch.equal(stack("rezero")(x, None), x)
    torch.testing.assert_close(stack("dyt").norm(x), torch.tanh(0.5 * x))
    torch.testing.assert_close(stack("derf").norm(x), torch.erf(0.5 * x))
    omegas = [SCHEMES["admin_closed"](WIDTH, 0.0, place(6, decoder)).omega for decoder in (False, True)]
    assert [omega.unique().item() for omega in omegas] == pytest.approx([2.017, 2.335], abs=1e-3)
    alphas = [DeepNorm.constants(where)[0] for where in places(100)]
    assert alphas == pytest.approx([3.4157, 4.1618, 200**0.25], abs=1e-4)


@pytest.mark.parametrize(("layers", "post"), [(2, 1), (6, 1), (12, 3)])
def test_at_least_one_layer_and_the_first_quarter_of_mixln_is_post_ln(layers, post):
    x = torch.randn(TIME, BATCH, WIDTH)
    for layer in range(layers):
        made = SCHEMES["mixln"](WIDTH, 0.0, place(layers, layer=layer))
        assert torch.equal(made(x, torch.sin), made.norm(x + x.sin())) == (layer < post)


SMALL = {"layers": 2, "width": 32, "ffn": 48, "heads": 4, "init": "xavier"}
OUTWARD = ("v_proj.weight", "out_proj.weight", "fc1.weight", "fc2.weight")
"""The matrices that determine the size of a sub-layer's output: all except those of queries and keys."""


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("norm", "gain"), [("deepnorm", 1), ("tfixup", 1), ("subln", 1), ("postln", 0.5)])
def test_a_gain_multiplies_what_its_paper_says_and_nothing_else(build_model, norm, gain, shared):
    """Also a gain that is given as a setting."""
    plain = build_model(norm="postln", share_embeddings=shared, **SMALL).state_dict()
    model = build_model(norm=norm, branch_gain=gain, share_embeddings=shared, **SMALL)
    for name, values in model.state_dict().items():
        if "norm" in name or "inner" in name:
            continue
        scaled = name.endswith(OUTWARD) and not (norm == "subln" and "cross_attn" in name)
        factor = gain * SCHEMES[norm].gain(place(2, name.startswith("decoder"))) if scaled else 1.0
        if norm == "tfixup" and ("embed" in name or (shared and "projection" in name)):
            factor = 18**-0.25
        torch.testing.assert_close(values, factor * plain[name])


def test_the_initial_weights_and_states_of_ngpt_are_unit_vectors(build_model):
    model = build_model(norm="ngpt", share_embeddings=True, **SMALL).eval()
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2 and not name.endswith("_norm.weight"):
            norms = parameter.norm(dim=0 if name.endswith(("out_proj.weight", "fc2.weight")) else 1)
            expected = torch.ones_like(norms)
            if "embed" in name:
                expected[1] = 0  # padding
            torch.testing.assert_close(norms, expected)
    states = model.encoder(torch.randint(4, 40, (3, 6)))["x"].norm(dim=-1)
    torch.testing.assert_close(states, torch.ones_like(states))
    x = torch.randn(3, 32)
    logits = x @ model.decoder.projection.weight.T  # the factor is 1; its parameter, 1 / sqrt(32)
    torch.testing.assert_close(model.decoder.projection(x), logits)
    assert model.decoder.projection.factor.weight.unique().item() == pytest.approx(32**-0.5)
    rates = [module.rate for module in model.modules() if hasattr(module, "rate")]
    assert len(rates) == 10 and all((rate.value - FIRST_RATE).abs().max() < 1e-9 for rate in rates)


def test_admin_starts_from_the_variances_on_a_mini_batch(build_model):
    """Each weight is the standard deviation of the stream so far, as an ordinary pass shows it."""
    model = build_model(norm="admin", **SMALL).train()
    source, target = torch.randint(4, 40, (3, 6)), torch.randint(4, 40, (3, 5))
    initialise_admin(model, lambda: model(source, None, target))
    assert model.training
    model.eval()
    seen = []

    def look(admin, inputs):
        x, branch = inputs
        seen.append((admin.omega, x, branch(x)))

    for module in model.modules():
        if isinstance(module, Admin):
            module.register_forward_pre_hook(look)
    with torch.no_grad():
        model(source, None, target)
    assert len(seen) == 2 * (2 + 3)
    for sub_layers in (seen[:4], seen[4:]):  # the encoder's chain and the decoder's, each from 1
        gathered = 1.0
        for omega, x, out in sub_layers:
            assert omega.tolist() == pytest.approx([gathered] * 32)
            gathered = math.sqrt((gathered * x).var() + out.var())
        assert gathered > 1.05


@pytest.mark.parametrize("norm", SCHEMES)
def test_every_parameter_learns(build_model, norm):
    model = build_model(60, norm=norm, share_embeddings=True, **SMALL)
    tokens = torch.randint(4, 60, (3, 6))
    for _ in range(3):  # in ReZero the decoder learns from the second update on, then the encoder
        logits, _ = model(tokens, None, tokens)
        logits.flatten(0, 1).log_softmax(-1)[range(18), tokens.flatten()].sum().neg().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 1e-3 * parameter.grad
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []
