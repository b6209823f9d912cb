"""Named experiments down to what fairseq is given, and to the size of the model."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from ln_repro.engine.inputs import Inputs
from ln_repro.engine.trainer import PARTS, configuration
from ln_repro.experiment.compose import compose
from ln_repro.experiment.precision import resolve_precision
from ln_repro.experiment.settings import build
from ln_repro.experiment.tasks import TASKS
from ln_repro.system.distributed import Rank
from tests.engine.made import dictionary

VOCABULARY = 1000


def linear(layers, width, ffn, attentions=1, feed_forwards=1):
    """Return the parameters of embeddings and layers without norms, by hand."""
    attention, feed_forward = 4 * width * (width + 1), 2 * width * ffn + ffn + width
    return VOCABULARY * width + layers * (attentions * attention + feed_forwards * feed_forward)


@pytest.mark.parametrize(
    ("name", "classes", "batches", "epochs", "updates", "heads", "parameters"),
    [
        ("iwslt_postln_warm", ["LnTranslation", "LnTransformer", "LabelSmoothedCrossEntropy"],
         {"max_tokens": 4096, "batch_size": None}, 15, None, 4, linear(6, 512, 1024, 3, 2) + 30 * 2 * 512),
        ("wmt_preln_nowarm", ["LnTranslation", "LnTransformer", "LabelSmoothedCrossEntropy"],
         {"max_tokens": 8192, "batch_size": None}, 20, None, 8, linear(6, 512, 2048, 3, 2) + 32 * 2 * 512),
        ("bert_preln_warm_linear", ["LnMaskedLm", "LnEncoder", "LabelSmoothedCrossEntropy"],
         {"max_tokens": 16_384, "batch_size": None}, None, 1_000_000, 12, linear(12, 768, 3072) + 25 * 2 * 768),
        ("rte_postln_nowarm_linear", ["LnClassification", "LnClassifier", "Classified"],
         {"batch_size": 32}, 3, None, 12, linear(12, 768, 3072) + 24 * 2 * 768 + 2 * 769),
    ],
)  # fmt: skip
def test_an_experiment_reaches_fairseq_as_in_the_paper(name, classes, batches, epochs, updates, heads, parameters):
    """The values of all experiments are those of the hashes in tests/experiment/test_compose.py."""
    experiment = resolve_precision(build(compose([f"exp={name}", "train.device=cpu"])))
    cfg = configuration(Inputs(experiment, Path("run"), Path("corpus")), Rank())
    assert [part.__name__ for part in PARTS[experiment.task]] == classes
    assert cfg.common.cpu and not cfg.common.fp16 and cfg.common.seed == experiment.torch_seed
    assert {key: cfg.dataset[key] for key in batches} == batches
    assert (experiment.train.max_epoch, experiment.train.max_update) == (epochs, updates)
    words = dictionary(VOCABULARY)
    with torch.device("meta"):  # without a single number
        task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
        model = PARTS[experiment.task][1].build_model(experiment, task)
    assert model.encoder.stack.layers[0].self_attn.heads == heads
    assert {module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)} == {0.1}
    norms = sum(
        p.numel() for module in model.modules() if isinstance(module, torch.nn.LayerNorm) for p in module.parameters()
    )
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
    assert experiment.model.parameters(VOCABULARY, TASKS[experiment.task]) == parameters - norms
