"""The whole model: initialisation, positions, masks, decoding step by step, and the sizes of named experiments."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.modules import SinusoidalPositionalEmbedding

from ln_repro.engine.trainer import PARTS
from ln_repro.experiment.compose import compose
from ln_repro.experiment.model import TASKS
from ln_repro.experiment.precision import resolve_precision
from ln_repro.experiment.settings import build
from ln_repro.model.layers import TokenEmbedding
from ln_repro.model.schemes.registry import SCHEMES
from tests.engine.made import dictionary

pytestmark = pytest.mark.usefixtures("double")
SMALL = {"layers": 2, "width": 32, "ffn": 48, "heads": 4, "dropout": 0.1, "share_embeddings": True}


def test_positions_are_fairseqs():
    embedding = torch.nn.Embedding(30, 16, padding_idx=1)
    torch.nn.init.zeros_(embedding.weight)
    ours = TokenEmbedding(embedding, 0.0)
    theirs = SinusoidalPositionalEmbedding(16, 1, init_size=64)
    left_padded = torch.tensor([[1, 1, 5, 6, 2], [7, 8, 9, 10, 2]])
    torch.testing.assert_close(ours(left_padded).float(), theirs(left_padded))
    newest = ours(left_padded, newest_only=True)
    torch.testing.assert_close(newest.float(), theirs(left_padded, incremental_state={}))


@pytest.mark.parametrize("norm", SCHEMES)
@torch.no_grad()
def test_padding_changes_nothing(build_model, norm):
    model = build_model(40, norm=norm, **SMALL).eval()
    source, target = torch.randint(4, 40, (1, 5)), torch.randint(4, 40, (1, 4))
    alone, _ = model(source, torch.tensor([5]), target)
    padded_source = torch.cat([torch.full((1, 3), 1), source], 1)  # fairseq pads sources on the left
    longer = torch.randint(4, 40, (1, 8))
    together, _ = model(torch.cat([longer, padded_source]), torch.tensor([8, 5]), target.expand(2, 4))
    torch.testing.assert_close(together[1:], alone)


@pytest.mark.parametrize("norm", SCHEMES)
@torch.no_grad()
def test_decoding_step_by_step_equals_all_at_once(build_model, norm):
    model = build_model(40, norm=norm, **SMALL).eval()
    source, target = torch.randint(4, 40, (3, 5)), torch.randint(4, 40, (3, 6))
    memory = model.encoder(source)
    whole, _ = model.decoder(target, memory)
    state = {}
    for step in range(target.size(1)):
        logits, _ = model.decoder(target[:, : step + 1], memory, incremental_state=state)
        torch.testing.assert_close(logits[:, 0], whole[:, step])


@pytest.mark.parametrize("tied", [True, False])
def test_the_theorys_model_is_this_one(build_model, tied):
    """`ln_repro.theory.real` builds the model without fairseq; parameters and loss have to be the same."""
    from ln_repro.engine.plugin.loss import SmoothedNll
    from ln_repro.theory.real import Setting, Transformer, zipf_batches

    size = {"layers": 2, "width": 32, "ffn": 64, "heads": 2}
    setting = Setting("postln", vocabulary=40, tied=tied, batches=1, sentences=3, length=5, **size)
    theirs = Transformer(setting, 1).eval()
    ours = build_model(norm="postln", init="xavier", share_embeddings=tied, **size).eval()
    assert sum(p.numel() for p in theirs.parameters()) == sum(p.numel() for p in ours.parameters())
    torch.testing.assert_close(theirs.decoder.state_dict(), ours.decoder.stack.state_dict(), rtol=0, atol=0)
    ((source, target),) = zipf_batches(setting, 1)
    before = torch.nn.functional.pad(target[:, :-1], (1, 0), value=2)
    logits = ours(source, torch.full((3,), 5), before)[0]
    loss, _ = SmoothedNll.apply(logits.flatten(0, 1), target.flatten(), 0.1, 1)
    in_fp32 = theirs(source, target).float()  # as the loss is
    torch.testing.assert_close(in_fp32, loss / target.numel(), rtol=1e-5, atol=0)


WIDTH, FFN = 256, 512
XAVIER = (2 / (WIDTH + FFN)) ** 0.5
SHAPE = {"norm": "preln", "layers": 2, "width": WIDTH, "ffn": FFN, "heads": 4}


@pytest.mark.parametrize(("name", "query", "value", "ffn1", "uniform"), [
    ("xavier_legacy", WIDTH**-0.5 / 2**0.5, WIDTH**-0.5 / 2**0.5, XAVIER, True),
    ("xavier", WIDTH**-0.5, WIDTH**-0.5, XAVIER, False),
    ("theory", 0.0, WIDTH**-0.5, XAVIER, False),
    ("fairseq", WIDTH**-0.5 / 2**0.5, WIDTH**-0.5 / 2**0.5, (3 * WIDTH) ** -0.5, True),
])  # fmt: skip
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


VOCABULARY = 1000


def linear(layers, width, ffn, attentions=1, feed_forwards=1):
    """Return the parameters of embeddings and layers without norms, by hand."""
    attention, feed_forward = 4 * width * (width + 1), 2 * width * ffn + ffn + width
    return VOCABULARY * width + layers * (attentions * attention + feed_forwards * feed_forward)


@pytest.mark.parametrize(("name", "heads", "parameters"), [
    ("iwslt_postln_warm", 4, linear(6, 512, 1024, 3, 2) + 30 * 2 * 512),
    ("wmt_preln_nowarm", 8, linear(6, 512, 2048, 3, 2) + 32 * 2 * 512),
    ("bert_preln_warm_linear", 12, linear(12, 768, 3072) + 25 * 2 * 768),
    ("rte_postln_nowarm_linear", 12, linear(12, 768, 3072) + 24 * 2 * 768 + 2 * 769),
])  # fmt: skip
def test_an_experiment_has_the_papers_model(name, heads, parameters):
    """The settings of all experiments are those of the hashes in tests/experiment/test_compose.py."""
    experiment = resolve_precision(build(compose([f"exp={name}", "train.device=cpu"])))
    words = dictionary(VOCABULARY)
    with torch.device("meta"):  # without a single number
        task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
        model = PARTS[experiment.task][1](experiment, task)
    assert model.encoder.stack.layers[0].self_attn.heads == heads
    assert {module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)} == {0.1}
    norms = [module for module in model.modules() if isinstance(module, torch.nn.LayerNorm)]
    of_norms = sum(parameter.numel() for norm in norms for parameter in norm.parameters())
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
    assert experiment.model.parameters(VOCABULARY, TASKS[experiment.task]) == parameters - of_norms
