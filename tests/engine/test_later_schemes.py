"""Stacks of the later schemes against the formulas of their papers, written out in plain functions."""

import math

import pytest
import torch
from torch import nn

from ln_repro.engine.plugin import init
from ln_repro.engine.plugin.layers import DecoderLayer, EncoderLayer, Shape, Stack
from ln_repro.engine.plugin.residual import Place
from ln_repro.engine.plugin.schemes.inner import SubLN
from ln_repro.engine.plugin.schemes.ngpt import FIRST_RATE
from ln_repro.engine.plugin.schemes.registry import SCHEMES
from ln_repro.engine.plugin.schemes.weighted import TFixup

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
                self.linear(given, f"{path}.{name}_proj").view(len(given), BATCH, HEADS, -1), f"{path}.{name}_norm"
            )
            for name, given, norm in (("q", x, q), ("k", source, k), ("v", source, v))
        }
        scores = scale * torch.einsum("tbhd,sbhd->bhts", heads["q"], heads["k"])
        if kind == "self_attn" and self.kinds is DECODER:
            scores = scores.masked_fill(torch.ones(TIME, TIME).triu(1).bool(), -torch.inf)
        mixed = torch.einsum("bhts,sbhd->tbhd", scores.softmax(-1), heads["v"]).reshape(x.shape)
        return self.linear(inner(mixed, f"{path}.inner"), f"{path}.out_proj")

    def residual(self, x):
        total = x
        for where in self.each():
            out = self.branch(x, *where)
            total, x = total + out, self.own(x + out, *where)
        return x + self.own(total, LAYERS - 1, "ffn", "final")

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
        for layer, kind in self.each():
            if layer == 0:  # a quarter of four
                x = self.own(x + self.branch(x, layer, kind), layer, kind)
            else:
                x = x + self.branch(self.own(x, layer, kind), layer, kind)
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

    def dyt(self, x):
        def bounded(x, name):
            alpha, gamma, beta = (self.weights[f"{name}.{part}"] for part in ("alpha", "weight", "bias"))
            return gamma * torch.tanh(alpha * x) + beta

        for layer, kind in self.each():
            x = x + self.branch(bounded(x, f"layers.{layer}.{kind}_residual.norm"), layer, kind)
        return bounded(x, "norm")

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


NORMS = [name for name in vars(Written) if name in SCHEMES]


def stack(norm, kind=EncoderLayer, layers=LAYERS, width=WIDTH, ffn=FFN, heads=HEADS, seed=1):
    """Return a new stack without dropout and an embedding, initialised by Xavier."""
    torch.manual_seed(seed)
    made = Stack(kind, Shape(norm, layers, width, ffn, heads, 0.0))
    embedding = nn.Embedding(40, width, 1)
    with torch.no_grad():
        init.initialise([embedding], [made], made.scheme.projection(width, 40), "xavier")
    return made, embedding


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", [EncoderLayer, DecoderLayer])
@torch.no_grad()
def test_a_stack_is_its_papers_formula(norm, kind):
    made, _ = stack(norm, kind)
    for parameter in made.parameters():  # biases, norms and factors are not told from nothing when new
        parameter += 0.2 * torch.randn_like(parameter)
    x, memory = torch.randn(TIME, BATCH, WIDTH), torch.randn(TIME + 2, BATCH, WIDTH)
    decodes = kind is DecoderLayer
    expected = getattr(Written(made, memory if decodes else None), norm)(x)
    torch.testing.assert_close(made(x, *((memory, None, None) if decodes else (None,))), expected)


def test_every_later_scheme_is_written_out_here():
    earlier = {"postln", "preln", "deepnorm", "rezero", "admin", "admin_closed"}  # test_residual, test_schemes
    assert {*NORMS, *earlier} == SCHEMES.keys()


def ratio(norm, layers=24, seeds=(1, 2, 3)):
    """Return the gradient of the first decoder layer's W2 over that of the last, as the geometric mean over seeds."""
    logs = []
    for seed in seeds:
        made, _ = stack(norm, DecoderLayer, layers, seed=seed)
        x, memory = torch.randn(2, TIME, BATCH, WIDTH)
        made(x, memory, None, None)[..., 0].sum().backward()
        first, last = (made.layers[index].ffn.fc2.weight.grad.norm() for index in (0, -1))
        logs.append(math.log(first / last))
    return math.exp(sum(logs) / len(logs))


@torch.no_grad()
def variances(norm, layers=12):
    """Return the variance of the output of each layer at initialisation."""
    made, _ = stack(norm, layers=layers, width=64, ffn=128, heads=4)
    found = []
    for layer in made.layers:
        layer.register_forward_hook(lambda _, given, out: found.append(out.var().item()))
    made(torch.randn(10, 8, 64), None)
    return found


@pytest.mark.parametrize("norm", ["residual", "b2t"])
def test_a_second_way_down_keeps_the_gradient_of_the_first_layers(norm):
    assert ratio(norm) > 2 * ratio("postln")


def test_a_norm_at_the_end_of_branches_lets_the_stream_grow_by_one_for_each():
    after = variances("periln")
    assert after == pytest.approx([1 + 2 * layer for layer in range(1, 13)], rel=0.3)


def test_scaled_norms_let_the_stream_grow_more_slowly():
    plain, scaled = variances("preln"), variances("lnscale")
    growths = [(of[-1] - of[5]) / (of[5] - of[0]) for of in (plain, scaled)]
    assert scaled[-1] < plain[-1] / 2 and growths[1] < growths[0]


@pytest.mark.parametrize(("layers", "post"), [(2, 1), (4, 1), (6, 1), (12, 3), (24, 6)])
def test_the_first_quarter_of_the_layers_is_post_ln(layers, post):
    after = variances("mixln", layers)
    assert [layer for layer, variance in enumerate(after) if abs(variance - 1) < 0.01] == [*range(post)]


@torch.no_grad()
def test_a_bounded_activation_starts_as_half_and_has_no_statistics():
    made, _ = stack("dyt")
    x = torch.randn(TIME, BATCH, WIDTH)
    torch.testing.assert_close(made.norm(x), torch.tanh(0.5 * x))
    assert not any(isinstance(module, nn.LayerNorm) for module in made.modules())


@pytest.mark.parametrize(
    ("layers", "encoder", "decoder", "alone"),
    [(6, 1.547, 1.700, math.sqrt(math.log(12))), (18, 2.1826, 1.9973, math.sqrt(math.log(36)))],
)
def test_the_gains_of_subln_are_those_of_its_paper(layers, encoder, decoder, alone):
    gains = [
        SubLN.gain(Place(*where)) for where in ((False, layers, layers), (True, layers, layers), (False, layers, 0))
    ]
    assert gains == pytest.approx([encoder, decoder, alone], abs=1e-3)
    assert SubLN.gain(Place(True, layers, layers, kind="cross_attn")) == 1.0


def test_the_constants_of_tfixup_are_those_of_its_paper():
    encoder, decoder = Place(False, 6, 6), Place(True, 6, 6)
    assert (TFixup.gain(encoder), TFixup.gain(decoder)) == pytest.approx((0.4281, 0.3689), abs=1e-4)
    assert TFixup.embedding_gain(encoder) == TFixup.embedding_gain(decoder) == pytest.approx(0.3689, abs=1e-4)


SMALL = {"layers": 2, "width": 32, "ffn": 48, "heads": 4, "init": "xavier"}
"""The matrices that determine the size of a sub-layer's output: all except those of queries and keys."""
OUTWARD = ("v_proj.weight", "out_proj.weight", "fc1.weight", "fc2.weight")


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("norm", ["tfixup", "subln"])
def test_a_gain_multiplies_what_its_paper_says_and_nothing_else(build_model, norm, shared):
    plain = build_model(norm="postln", share_embeddings=shared, **SMALL).state_dict()
    model = build_model(norm=norm, share_embeddings=shared, **SMALL)
    assert not any(isinstance(module, nn.LayerNorm) for module in model.modules()) or norm == "subln"
    for name, values in model.state_dict().items():
        if "norm" in name or "inner" in name:
            continue
        place = Place(name.startswith("decoder"), 2, 2, kind="cross_attn" if "cross_attn" in name else "ffn")
        factor = SCHEMES[norm].gain(place) if name.endswith(OUTWARD) else 1.0
        if "embed" in name or (shared and "projection" in name):
            factor = SCHEMES[norm].embedding_gain(place)
        torch.testing.assert_close(values, factor * plain[name])


def lengths(model):
    """Return the lengths of all vectors that nGPT normalises, and those of the states of a mini-batch."""
    found = []
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2 and not name.endswith("_norm.weight"):
            found.append(parameter.norm(dim=0 if name.endswith(("out_proj.weight", "fc2.weight")) else 1))
    tokens = torch.randint(4, 40, (3, 6))
    memory = model.encoder(tokens)
    states = model.decoder.stack(model.decoder.embed(tokens).transpose(0, 1), memory["x"], memory["mask"], None)
    embeddings, *others = found
    assert embeddings[1] == 0  # padding
    return torch.cat([embeddings[2:], *others, memory["x"].norm(dim=-1).flatten(), states.norm(dim=-1).flatten()])


def test_the_weights_and_states_of_ngpt_are_unit_vectors_when_new(build_model):
    model = build_model(norm="ngpt", share_embeddings=True, **SMALL).eval()
    torch.testing.assert_close(lengths(model), torch.ones(()).expand(lengths(model).shape))
    rates = [module.rate for module in model.modules() if hasattr(module, "rate")]
    assert len(rates) == 10 and all((rate.value - FIRST_RATE).abs().max() < 1e-9 for rate in rates)
