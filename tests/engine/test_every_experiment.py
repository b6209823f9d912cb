"""Every named experiment down to fairseq's own settings and the model itself, against the tables of the paper."""

import math
from types import SimpleNamespace

import pytest
import torch
from fairseq import options
from fairseq.data import Dictionary

from ln_repro.engine.command import training_arguments
from ln_repro.engine.device import resolve_precision
from ln_repro.engine.plugin.encoder_only import LnClassifier, LnEncoder
from ln_repro.engine.plugin.model import LnTransformer
from ln_repro.experiment.compose import compose
from ln_repro.experiment.settings import build
from ln_repro.experiment.tasks import TASKS
from tests.experiment.test_compose import (
    ARMS,
    BERT_ARMS,
    BERT_EXPECTED,
    BERTS,
    CORPORA,
    EXPECTED,
    FINE_TUNED,
    LONGER,
    MODELS,
    layers,
    norm,
)

UPDATES_PER_EPOCH = {"iwslt": 1080, "tatoeba": 419, "multi30k": 252, "multi30k6": 252, "toy": 441, "wmt": 1000}
VOCABULARY = 1000
ZETA_OF_A_HALF = -1.4603545088
"""The sum of 1/sqrt(t) for t to n is 2 sqrt(n) + this, as n grows."""


def configured(corpus, arm):
    """Return the experiment, and what fairseq makes of its command line."""
    experiment = resolve_precision(build(compose([f"exp={corpus}_{arm}", "train.device=cpu"])))
    arguments = training_arguments(experiment, "corpus", "checkpoints")
    return experiment, options.parse_args_and_arch(options.get_training_parser(), arguments)


def on_meta(given, kind=LnTransformer):
    """Return the model, without a single number in it."""
    words = Dictionary()
    for index in range(VOCABULARY - len(words)):
        words.add_symbol(f"w{index}")
    with torch.device("meta"):
        return kind.build_model(given, SimpleNamespace(source_dictionary=words, target_dictionary=words))


def roots(first, last):
    """Return the sum of 1/sqrt(t) for t from ``first`` to ``last``, by the integral."""
    return 2 * math.sqrt(last + 0.5) - 2 * math.sqrt(first - 0.5)


def total(decay, lr, ramp, anchor, full, updates):
    """Return the total learning rate by closed form; ``full`` is the last update before a step."""
    tail = {
        "constant": lambda: updates - ramp,
        "inverse_sqrt": lambda: math.sqrt(ramp) * roots(ramp + 1, updates),
        "anchored": lambda: anchor + math.sqrt(anchor) * roots(anchor + 1, updates),
        "literal": lambda: 2 * math.sqrt(updates) + ZETA_OF_A_HALF,
        "linear": lambda: (updates + 1) / 2,
        "step": lambda: full - ramp + 0.1 * (updates - full),
        "step_inverse_sqrt": lambda: full - ramp + math.sqrt(full) * roots(full + 1, updates),
    }[decay]
    return lr * ((ramp + 1) / 2 * bool(ramp) + tail())


@pytest.mark.parametrize(
    ("corpus", "arm"),
    [pytest.param(*which, marks=[] if which[0] == "iwslt" else pytest.mark.slow) for which in EXPECTED],
)
def test_an_experiment_reaches_fairseq_as_the_table_has_it(corpus, arm):
    experiment, given = configured(corpus, arm)
    _, model_name, max_tokens, batches, epochs, step_epoch, reference = CORPORA[corpus]
    _, _, width, ffn, heads = MODELS[model_name]
    depth = layers(corpus, arm)
    ramp_name, decay, rate, optimizer = ARMS[arm]
    ramp, lr = reference[ramp_name] if ramp_name else 0, reference[rate]
    if decay == "step" and corpus == "wmt":
        decay = "step_inverse_sqrt"
    epochs = LONGER[corpus] if arm.endswith("fixed") else epochs
    updates = epochs * UPDATES_PER_EPOCH[corpus]

    assert (given.task, given.arch, given.criterion) == ("ln_translation", "ln_transformer", "ln_cross_entropy")
    assert (given.lr, given.clip_norm, given.label_smoothing, given.weight_decay) == ([lr], 0.0, 0.1, 0.0)
    assert (given.max_epoch, given.max_update) == (epochs, 0)
    assert (given.max_tokens, given.update_freq) == (max_tokens, [batches])
    assert given.optimizer == f"ln_{optimizer}"
    if optimizer != "sgd":
        assert (given.beta1, given.beta2, given.adam_eps) == (0.9, 0.98, 1e-8)
    assert (given.lr_scheduler, given.warmup_updates, given.decay) == ("ln_ramp_and_tail", ramp, decay)
    assert (given.seed, given.precision) == (1, "fp32") and not (given.fp16 or given.bf16 or given.amp)

    schedule = experiment.learning_rate(UPDATES_PER_EPOCH[corpus])
    assert schedule.total == updates
    assert schedule.at(1) == (lr / ramp if ramp else lr)
    full = max(step_epoch * UPDATES_PER_EPOCH[corpus], ramp)  # tatoeba's ramp lasts longer than its 8 epochs
    assert schedule.sum() == pytest.approx(total(decay, lr, ramp, reference["ramp"], full, updates), rel=1e-3)

    init = "xavier" if arm.startswith("deepnorm") else "xavier_legacy"
    assert (given.norm, given.init, given.dropout) == (norm(arm), init, 0.1)
    model = on_meta(given)
    assert all(parameter.is_meta for parameter in model.parameters())
    for stack in (model.encoder.stack, model.decoder.stack):
        assert len(stack.layers) == depth
    attention, feed_forward = 4 * width * (width + 1), 2 * width * ffn + ffn + width
    own = {"rezero": 1, "admin": 3 * width}.get(arm.split("_")[0], 2 * width)
    norms = 5 * depth * own + (4 * width if arm.startswith("preln") else 0)
    expected = VOCABULARY * width + depth * (3 * attention + 2 * feed_forward) + norms
    assert sum(parameter.numel() for parameter in model.parameters()) == expected
    assert model.encoder.stack.layers[0].self_attn.heads == heads


@pytest.mark.parametrize(("setting", "arm"), BERT_EXPECTED)
def test_a_bert_reaches_fairseq_as_the_table_has_it(setting, arm):
    experiment, given = configured(setting, arm)
    _, layers, width, ffn, heads, block, max_tokens, batches, epochs, updates, low, high, ramp = BERTS[setting]
    ramped, rate = BERT_ARMS[arm]
    lr, ramp = low if rate == "low" else high, ramp if ramped else 0

    assert (given.task, given.arch, given.criterion) == ("ln_masked_lm", "ln_encoder", "ln_cross_entropy")
    assert (given.lr, given.clip_norm, given.label_smoothing, given.weight_decay) == ([lr], 0.0, 0.0, 0.01)
    assert (given.max_epoch, given.max_update) == (epochs or 0, updates or 0)
    assert (given.block_tokens, given.max_tokens, given.update_freq) == (block, max_tokens, [batches])
    assert (given.optimizer, given.beta1, given.beta2, given.adam_eps) == ("ln_adam", 0.9, 0.999, 1e-6)
    assert (given.lr_scheduler, given.warmup_updates, given.decay) == ("ln_ramp_and_tail", ramp, "linear")

    total = updates or 200 * epochs
    schedule = experiment.learning_rate(200 if epochs else 10_000_000)
    assert schedule.total == total and schedule.at(1) == (lr / ramp if ramp else lr)
    tail = sum(total - update + 1 for update in range(ramp + 1, total + 1)) / total
    assert schedule.sum() == pytest.approx(lr * (tail + (ramp + 1) / 2 * bool(ramp)))

    model = on_meta(given, LnEncoder)
    assert len(model.encoder.stack.layers) == layers
    assert model.encoder.stack.layers[0].self_attn.heads == heads
    norms = (2 * layers + arm.startswith("preln")) * 2 * width
    without = experiment.model.parameters(VOCABULARY, TASKS[experiment.task])
    assert sum(parameter.numel() for parameter in model.parameters()) == without + norms
    assert without == VOCABULARY * width + layers * (4 * width * (width + 1) + 2 * width * ffn + ffn + width)


@pytest.mark.parametrize(("setting", "arm"), FINE_TUNED)
def test_a_fine_tuning_reaches_fairseq_as_the_table_has_it(setting, arm):
    _, given = configured(setting, arm)
    assert (given.task, given.arch, given.criterion) == ("ln_classification", "ln_classifier", "ln_classification")
    assert (given.lr, given.label_smoothing, given.weight_decay, given.start) == ([5e-5], 0.0, 0.01, "")
    assert (given.max_epoch, given.batch_size, given.update_freq) == (3, 32, [1])
    assert (given.lr_scheduler, given.warmup_updates, given.decay) == ("ln_ramp_and_tail", 0, "linear")
    with torch.device("meta"):
        words = Dictionary()
        model = LnClassifier.build_model(given, SimpleNamespace(source_dictionary=words, start=""))
    assert len(model.encoder.stack.layers) == 12
    layer = 4 * 768 * 769 + 2 * 768 * 3072 + 3072 + 768 + 2 * 2 * 768
    final = 2 * 768 * arm.startswith("preln")
    assert sum(p.numel() for p in model.parameters()) == len(words) * 768 + 12 * layer + final + 2 * 769
