"""Named experiments down to fairseq's own settings and the model itself, against the tables of the paper."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from ln_repro.engine.inputs import Inputs
from ln_repro.engine.plugin.optimizers import OPTIMIZERS
from ln_repro.engine.trainer import configuration
from ln_repro.engine.training import PARTS
from ln_repro.experiment.compose import compose
from ln_repro.experiment.precision import resolve_precision
from ln_repro.experiment.settings import build
from ln_repro.experiment.tasks import TASKS
from ln_repro.system.distributed import Rank
from tests.engine.made import dictionary
from tests.examples import norm_parameters

PAPER = {"lr": 5e-4, "high": 1e-3, "sgd": 5e-3, "sgd_low": 1e-3, "fixed": 1e-4, "ramp": 4000, "short": 500, "none": 0}
FOUR_TIMES = {**PAPER, "lr": 2e-3, "high": 4e-3, "sgd": 2e-2, "sgd_low": 4e-3, "fixed": 4e-4}
SETTINGS = {  # data; layers, width, ffn, heads; max_tokens, batches an update; epochs, step epoch, of the
    # fixed rate; then the rates and ramps that arms take
    "iwslt": ("iwslt14", 6, 512, 1024, 4, 4096, 1, 15, 8, 27, PAPER),
    "tatoeba": ("tatoeba", 6, 512, 1024, 4, 4096, 1, 15, 8, 27, PAPER),
    "multi30k": ("multi30k", 3, 128, 256, 4, 2048, 1, 10, 5, 18, {**FOUR_TIMES, "ramp": 1000, "short": 125}),
    "multi30k6": ("multi30k", 6, 128, 256, 4, 2048, 1, 15, 5, 18, {**FOUR_TIMES, "ramp": 500, "short": 62}),
    "iwsltsmall": ("iwslt14", 6, 128, 256, 4, 4096, 1, 8, 4, 14, {**FOUR_TIMES, "ramp": 500, "short": 62}),
    "toy": ("toy", 6, 64, 128, 4, 560, 1, 3, 1, 5, {**FOUR_TIMES, "ramp": 400, "short": 50}),
    "wmt": ("wmt14", 6, 512, 2048, 8, 8192, 16, 20, 6, 20, {**PAPER, "lr": 7e-4, "high": 1.5e-3}),
}
ARMS = {  # ramp, decay, rate and optimizer (sections 3.2 and 4.1, appendix H)
    "postln_warm": ("ramp", "inverse_sqrt", "lr", "adam"),
    "postln_warm_high": ("ramp", "inverse_sqrt", "high", "adam"),
    "postln_warm_short": ("short", "inverse_sqrt", "lr", "adam"),
    "postln_warm_sgd": ("ramp", "inverse_sqrt", "sgd", "sgd"),
    "postln_warm_sgd_low": ("ramp", "inverse_sqrt", "sgd_low", "sgd"),
    "postln_nowarm": ("none", "anchored", "lr", "adam"),
    "postln_nowarm_fixed": ("none", "constant", "fixed", "adam"),
    "postln_nowarm_literal": ("none", "literal", "lr", "adam"),
    "preln_nowarm": ("none", "step", "lr", "adam"),
    "preln_nowarm_sgd": ("none", "anchored", "sgd", "sgd"),
    "preln_nowarm_radam": ("none", "linear", "lr", "radam"),
    "deepnorm_nowarm": ("none", "anchored", "lr", "adam"),
}
BERTS = {  # data, layers, width, ffn, heads; block, tokens, batches an update; epochs, updates; rates and ramp
    "bert": ("text", 12, 768, 3072, 12, 512, 256 * 512 // 8, 8, 0, 1_000_000, 1e-4, 3e-4, 10_000),
    "minibert": ("multi30k", 4, 128, 512, 4, 32, 2048, 1, 10, 0, 1e-3, 3e-3, 200),
    "wikinews": ("wikinews", 4, 128, 512, 4, 64, 2048, 1, 5, 0, 1e-3, 3e-3, 200),
    "toybert": ("toy", 6, 64, 128, 4, 16, 512, 1, 4, 0, 1e-3, 3e-3, 100),
}
VOCABULARY = 1000


def configured(name):
    """Return the experiment of a name, and what fairseq, torch and our classes make of it."""
    experiment = resolve_precision(build(compose([f"exp={name}", "train.device=cpu"])))
    task, model, kind = PARTS[experiment.task]
    loss, parameter = kind(experiment, SimpleNamespace(target_dictionary=None)), torch.nn.Parameter(torch.zeros(1))
    optimizer = OPTIMIZERS[experiment.optimizer.name](experiment.optimizer, experiment.lr, [parameter])
    cfg = configuration(Inputs(experiment, Path("run"), Path("corpus")), Rank())
    return experiment, SimpleNamespace(**{
        **vars(experiment), **vars(experiment.train), **vars(experiment.learning_rate(100)), **cfg.common,
        **cfg.dataset, **optimizer.param_groups[0], "classes": [task.__name__, model.__name__, kind.__name__],
        "optimizer": type(optimizer).__name__, "label_smoothing": loss.label_smoothing,
        "low_precision": loss.low_precision,
    })  # fmt: skip


def check(given, **expected):
    assert {name: getattr(given, name) for name in expected} == expected


def check_model(experiment, layers, heads, parameters):
    """Build the model without a single number in it, and check its size and dropout."""
    words = dictionary(VOCABULARY)
    with torch.device("meta"):
        task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
        model = PARTS[experiment.task][1].build_model(experiment, task)
    assert all(len(stack.layers) == layers for stack in model.stacks.values())
    assert model.encoder.stack.layers[0].self_attn.heads == heads
    assert {module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)} == {0.1}
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


@pytest.mark.parametrize(
    "setting", [pytest.param(name, marks=[] if name == "toy" else pytest.mark.slow) for name in SETTINGS]
)
@pytest.mark.parametrize("arm", ARMS)
def test_a_translation_experiment_reaches_fairseq_as_the_tables_have_it(setting, arm):
    data, *sizes, max_tokens, batches, epochs, step_epoch, longer, reference = SETTINGS[setting]
    (layers, width, ffn, heads), (ramp, decay, rate, optimizer) = sizes, ARMS[arm]
    experiment, given = configured(f"{setting}_{arm}")
    norm = arm.split("_")[0]
    if decay == "step" and setting == "wmt":  # section 4.1: inverse square root after the 6th epoch
        decay = "step_inverse_sqrt"
    assert (experiment.data.name, experiment.eval.beam, experiment.eval.lenpen) == (data, 5, 1.2)
    check(
        given, classes=["LnTranslation", "LnTransformer", "LabelSmoothedCrossEntropy"], seed=1, low_precision=None,
        norm=norm, init="xavier" if norm == "deepnorm" else "xavier_legacy", label_smoothing=0.1, cpu=True,
        optimizer={"adam": "Adam", "sgd": "Sgd", "radam": "RAdam"}[optimizer], lr=reference[rate], peak=reference[rate],
        clip_norm=0.0, weight_decay=0.0, warmup_updates=reference[ramp], decay=decay,
        max_epoch=longer if rate == "fixed" else epochs, max_update=None, max_tokens=max_tokens,
        batches_per_update=batches, fp16=False, bf16=False, amp=False, stop_on_divergence=False,
    )  # fmt: skip
    if optimizer != "sgd":
        check(given, betas=(0.9, 0.98), eps=1e-8)
    if decay == "anchored":
        check(given, anchor=reference["ramp"])
    if decay.startswith("step"):
        check(given, step_epoch=step_epoch)
    attention, feed_forward = 4 * width * (width + 1), 2 * width * ffn + ffn + width
    norms = norm_parameters(norm, layers, width, ffn, heads, VOCABULARY)
    parameters = VOCABULARY * width + layers * (3 * attention + 2 * feed_forward) + norms
    check_model(experiment, layers, heads, parameters)


@pytest.mark.parametrize("setting", BERTS)
@pytest.mark.parametrize(
    "arm", ["postln_warm", "postln_warm_high", "postln_nowarm", "preln_warm", "preln_nowarm", "preln_nowarm_high"]
)
def test_a_bert_reaches_fairseq_as_the_table_has_it(setting, arm):
    data, layers, width, ffn, heads, block, max_tokens, batches, epochs, updates, low, high, ramp = BERTS[setting]
    norm, warm_up, *rate = arm.split("_")
    experiment, given = configured("_".join([setting, norm, warm_up, "linear", *rate]))
    assert experiment.data.name == data
    check(
        given, classes=["LnMaskedLm", "LnEncoder", "LabelSmoothedCrossEntropy"], norm=norm, label_smoothing=0.0,
        optimizer="Adam", lr=high if rate else low, peak=high if rate else low, clip_norm=0.0, weight_decay=0.01,
        betas=(0.9, 0.999), eps=1e-6, warmup_updates=ramp if warm_up == "warm" else 0, decay="linear",
        max_epoch=epochs or None, max_update=updates or None, block_tokens=block, max_tokens=max_tokens,
        batches_per_update=batches,
    )  # fmt: skip
    linear = experiment.model.parameters(VOCABULARY, TASKS["masked_lm"])
    assert linear == VOCABULARY * width + layers * (4 * width * (width + 1) + 2 * width * ffn + ffn + width)
    norms = (2 * layers + (norm == "preln")) * 2 * width
    check_model(experiment, layers, heads, linear + norms)


@pytest.mark.parametrize("setting", ["mrpc", "rte", "minimrpc", "minirte"])
@pytest.mark.parametrize("norm", ["postln", "preln"])
def test_a_fine_tuning_reaches_fairseq_as_the_paper_has_it(setting, norm):
    experiment, given = configured(f"{setting}_{norm}_nowarm_linear")
    small = setting.startswith("mini")
    assert experiment.data.name == setting.removeprefix("mini")
    check(
        given, classes=["LnClassification", "LnClassifier", "Classified"], norm=norm, label_smoothing=0.0,
        peak=5e-4 if small else 5e-5, weight_decay=0.01, warmup_updates=0, decay="linear", max_epoch=3,
        batch_size=32, batches_per_update=1, start=None,
    )  # fmt: skip
    layers, width, heads = (4, 128, 4) if small else (12, 768, 12)
    layer = 4 * width * (width + 1) + 2 * width * 4 * width + 4 * width + width + 2 * 2 * width
    final = 2 * width * (norm == "preln")
    check_model(experiment, layers, heads, VOCABULARY * width + layers * layer + final + 2 * (width + 1))
