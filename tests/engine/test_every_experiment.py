"""The sizes of the models of named experiments."""

from types import SimpleNamespace

import pytest
import torch

from ln_repro.engine.trainer import PARTS
from ln_repro.experiment.compose import compose
from ln_repro.experiment.model import TASKS
from ln_repro.experiment.precision import resolve_precision
from ln_repro.experiment.settings import build
from tests.engine.made import dictionary

VOCABULARY = 1000


def linear(layers, width, ffn, attentions=1, feed_forwards=1):
    """Return the parameters of embeddings and layers without norms, by hand."""
    attention, feed_forward = 4 * width * (width + 1), 2 * width * ffn + ffn + width
    return VOCABULARY * width + layers * (attentions * attention + feed_forwards * feed_forward)


@pytest.mark.parametrize(
    ("name", "heads", "parameters"),
    [
        ("iwslt_postln_warm", 4, linear(6, 512, 1024, 3, 2) + 30 * 2 * 512),
        ("wmt_preln_nowarm", 8, linear(6, 512, 2048, 3, 2) + 32 * 2 * 512),
        ("bert_preln_warm_linear", 12, linear(12, 768, 3072) + 25 * 2 * 768),
        ("rte_postln_nowarm_linear", 12, linear(12, 768, 3072) + 24 * 2 * 768 + 2 * 769),
    ],
)
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
