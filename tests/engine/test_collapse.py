"""The probe of collapse against plain torch on small models."""

import itertools
import math
from itertools import chain

import pytest
import torch

from ln_repro.model.probes.collapse import collapse
from ln_repro.model.schemes.registry import SCHEMES
from tests.engine.made import criterion, sample

SIZE = {"layers": 2, "width": 16, "ffn": 32, "heads": 2}
PAD = 1


def padded(seed):
    """Return a mini-batch of three sentences, one shorter by two tokens on both sides (source padded on the left)."""
    batch = sample(seed)
    tokens = {name: values.clone() for name, values in batch["net_input"].items()}
    tokens["src_tokens"][2, :2] = PAD
    tokens["prev_output_tokens"][2, 4:] = PAD
    target = batch["target"].clone()
    target[2, 4:] = PAD
    return {"net_input": tokens, "target": target, "ntokens": 16}


@pytest.mark.parametrize("norm", ["postln", "preln", "hybridnorm"])
def test_the_values_are_those_of_plain_torch(build_model, norm):
    """One mini-batch with padding: outputs of layers by hand, attention by its definition, gradients by backward."""
    model, loss = build_model(**SIZE, norm=norm, dropout=0.2), criterion()
    batch = padded(1)
    source = batch["net_input"]["src_tokens"]
    values = collapse(loss, model.train(), [batch], PAD)
    assert model.training

    model.eval()
    memory = model.encoder(source)
    x, mask, real = model.encoder.embed(source), memory["mask"], source.ne(PAD)
    x = x.masked_fill(~real[:, :, None], 0).transpose(0, 1)
    cosines, entropies = [], []
    for layer in model.encoder.stack.layers:
        entropies.append(by_definition(layer, layer.self_attn_residual, layer.self_attn, x, mask, real))
        x = layer(x, mask)
        cosines.append(pairwise(x, real))
    if norm != "postln":
        cosines.append(pairwise(model.encoder.stack.norm(x), real))
    for power, name in enumerate(("cosine", "squared_cosine"), 1):
        means = [sum(cosine**power for cosine in of_layer) / len(of_layer) for of_layer in cosines]
        assert values[name]["encoder"] == pytest.approx(means, abs=2e-6)
    assert values["entropy"]["encoder.self"] == pytest.approx(entropies, abs=2e-4)
    layers = {name: len(found) for name, found in values["entropy"].items()}
    assert layers == {"encoder.self": 2, "decoder.self": 2, "decoder.cross": 2}
    total, tokens, log = loss(model, batch)
    assert values["nll"]["eval"] == pytest.approx(log["nll_loss"].item() / 16 / math.log(2), rel=1e-3)
    (total / tokens).backward()
    for name, weight in {
        "encoder.w2": model.encoder.stack.layers[0].ffn.fc2.weight,
        "decoder.cross.v": model.decoder.stack.layers[0].cross_attn.v_proj.weight,
    }.items():
        assert values["gradient"][name][0] == pytest.approx(weight.grad.norm().item(), rel=2e-3)
    torch.manual_seed(1)
    dropped = loss(model.train(), batch)[2]["nll_loss"].item() / 16 / math.log(2)
    assert values["nll"]["dropout"] == pytest.approx(dropped, rel=1e-3)
    assert values["nll"]["dropout"] != values["nll"]["eval"]


def pairwise(x, real):
    tokens = [x[t, b] for b in range(real.size(0)) for t in range(real.size(1)) if real[b, t]]
    return [torch.cosine_similarity(a, b, dim=0).item() for a, b in itertools.combinations(tokens, 2)]


def by_definition(layer, residual, attention, x, mask, real):
    """Return the relative entropy of a layer's self-attention, query by query."""
    kept = []
    branch = lambda y: kept.append(y) or y  # noqa: E731 - what attention is given
    residual(x, branch)
    y, width = kept[0], 8
    ratios = []
    for b in range(real.size(0)):
        columns = [t for t in range(real.size(1)) if real[b, t]]
        q, k = attention.q_proj(y)[:, b], attention.k_proj(y)[:, b]
        for head in range(2):
            of_head = slice(head * width, (head + 1) * width)
            queries, keys = attention.q_norm(q[:, of_head]), attention.k_norm(k[:, of_head])
            for t in columns:
                p = torch.softmax(keys[columns] @ queries[t] / math.sqrt(width), 0)
                ratios.append(-(p * p.log()).sum().item() / math.log(len(columns)))
    return sum(ratios) / len(ratios)


@pytest.mark.parametrize("norm", sorted(SCHEMES))
def test_every_scheme_is_measured(build_model, norm):
    values = collapse(criterion(), build_model(**SIZE, norm=norm).train(), [sample(1), padded(2)], PAD)
    assert all(math.isfinite(value) for value in (*values["nll"].values(), *chain(*values["gradient"].values())))
    assert all(-1 <= value <= 1 for found in values["cosine"].values() for value in found)
    assert all(0 <= value <= 1 for found in values["entropy"].values() for value in found)
