"""Every initialisation, matrix by matrix."""

import pytest

WIDTH, FFN = 256, 512
XAVIER = (2 / (WIDTH + FFN)) ** 0.5
SHAPE = {"norm": "preln", "layers": 2, "width": WIDTH, "ffn": FFN, "heads": 4}


@pytest.mark.parametrize(
    ("name", "query", "value", "ffn1", "uniform"),
    [
        ("xavier_legacy", WIDTH**-0.5 / 2**0.5, WIDTH**-0.5 / 2**0.5, XAVIER, True),
        ("xavier", WIDTH**-0.5, WIDTH**-0.5, XAVIER, False),
        ("theory", 0.0, WIDTH**-0.5, XAVIER, False),
        ("fairseq", WIDTH**-0.5 / 2**0.5, WIDTH**-0.5 / 2**0.5, (3 * WIDTH) ** -0.5, True),
    ],
)
def test_scales_and_shapes_of_the_distributions(build_model, name, query, value, ffn1, uniform):
    layer = build_model(100, init=name, **SHAPE).decoder.stack.layers[1]
    for attention in (layer.self_attn, layer.cross_attn):
        projections = (attention.q_proj, attention.k_proj, attention.v_proj, attention.out_proj)
        deviations = [linear.weight.std().item() for linear in projections]
        assert deviations == pytest.approx([query, query, value, WIDTH**-0.5], rel=0.03)
        assert not attention.out_proj.bias.any()
        assert attention.q_proj.bias.any() == (name == "fairseq")
    fc1 = layer.ffn.fc1.weight
    assert fc1.std().item() == pytest.approx(ffn1, rel=0.03)
    assert (fc1.abs().max() <= 3**0.5 * ffn1 * 1.001) == uniform  # a Gaussian has tails
    assert layer.ffn.fc1.bias.any() == (name == "fairseq")


@pytest.mark.parametrize("name", ["xavier_legacy", "xavier", "theory", "fairseq"])
@pytest.mark.parametrize("shared", [True, False])
def test_embeddings(build_model, name, shared):
    model = build_model(400, init=name, share_embeddings=shared, **SHAPE)
    source, target = model.encoder.embed.embedding.weight, model.decoder.embed.embedding.weight
    matrices = [source, target, model.decoder.projection.weight]
    assert len({id(matrix) for matrix in matrices}) == (1 if shared else 3)
    for matrix in matrices:
        assert matrix[4:].std().item() == pytest.approx(WIDTH**-0.5, rel=0.03)
    assert not source[1].any() and not target[1].any()
