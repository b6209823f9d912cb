"""The named experiments down to fairseq's own settings and the model itself, against the tables of the paper."""

from types import SimpleNamespace

import pytest
import torch
from fairseq import options

from ln_repro.engine.command import training_arguments
from ln_repro.engine.device import resolve_precision
from ln_repro.engine.plugin.encoder_only import LnClassifier, LnEncoder
from ln_repro.engine.plugin.model import LnTransformer
from ln_repro.experiment.compose import compose, experiments
from ln_repro.experiment.settings import build
from ln_repro.experiment.tasks import TASKS
from tests.engine.made import dictionary
from tests.examples import norm_parameters

PAPER = {"lr": 5e-4, "high": 1e-3, "sgd": 5e-3, "sgd_low": 1e-3, "fixed": 1e-4, "ramp": 4000, "short": 500}
FOUR_TIMES = {"lr": 2e-3, "high": 4e-3, "sgd": 2e-2, "sgd_low": 4e-3, "fixed": 4e-4}
SMALL = {**FOUR_TIMES, "ramp": 1000, "short": 125}
SMALL6 = {**FOUR_TIMES, "ramp": 500, "short": 62}
TOY = {**FOUR_TIMES, "ramp": 400, "short": 50}
SETTINGS = {  # data; layers, width, ffn, heads; max_tokens, batches an update; epochs, step epoch, of the
    # fixed rate; then the rates and ramps that arms take
    "iwslt": ("iwslt14", 6, 512, 1024, 4, 4096, 1, 15, 8, 27, PAPER),
    "tatoeba": ("tatoeba", 6, 512, 1024, 4, 4096, 1, 15, 8, 27, PAPER),
    "multi30k": ("multi30k", 3, 128, 256, 4, 2048, 1, 10, 5, 18, SMALL),
    "multi30k6": ("multi30k", 6, 128, 256, 4, 2048, 1, 15, 5, 18, SMALL6),
    "toy": ("toy", 6, 64, 128, 4, 560, 1, 3, 1, 5, TOY),
    "wmt": ("wmt14", 6, 512, 2048, 8, 8192, 16, 20, 6, 20, {**PAPER, "lr": 7e-4, "high": 1.5e-3}),
}  # fmt: skip
EACH_REFERENCE = (
    "postln_warm_high", "postln_nowarm", "postln_warm_short", "postln_warm_sgd", "postln_warm_sgd_low",
    "postln_nowarm_fixed", "preln_nowarm",
)  # fmt: skip
"""Arms that together read every number that a setting gives to its arms."""
BERTS = {  # data, layers, width, ffn, heads; block, tokens, batches an update; epochs, updates; rates and ramp
    "bert": ("text", 12, 768, 3072, 12, 512, 256 * 512 // 8, 8, None, 1_000_000, 1e-4, 3e-4, 10_000),
    "minibert": ("multi30k", 4, 128, 512, 4, 32, 2048, 1, 10, None, 1e-3, 3e-3, 200),
    "wikinews": ("wikinews", 4, 128, 512, 4, 64, 2048, 1, 5, None, 1e-3, 3e-3, 200),
    "toybert": ("toy", 6, 64, 128, 4, 16, 512, 1, 4, None, 1e-3, 3e-3, 100),
}
VOCABULARY = 1000


def of(setting):
    """Return the arms of a setting."""
    return [name.partition("_")[2] for name in experiments() if name.startswith(f"{setting}_")]


def configured(setting, arm):
    """Return the experiment, and what fairseq makes of its command line."""
    experiment = resolve_precision(build(compose([f"exp={setting}_{arm}", "train.device=cpu"])))
    arguments = training_arguments(experiment, "corpus", "checkpoints")
    assert (experiment.exp, experiment.seed) == (f"{setting}_{arm}", 1)
    return experiment, options.parse_args_and_arch(options.get_training_parser(), arguments)


def on_meta(given, kind=LnTransformer):
    """Return the model, without a single number in it."""
    words = dictionary(VOCABULARY)
    with torch.device("meta"):
        model = kind.build_model(given, SimpleNamespace(source_dictionary=words, target_dictionary=words, start=""))
    assert all(parameter.is_meta for parameter in model.parameters())
    return model, sum(parameter.numel() for parameter in model.parameters())


def described(arm):
    """Return the ramp, decay, rate and optimizer that an arm's name says (section 3.2 and 4.1, appendix H)."""
    norm, ramp, *words = arm.split("_")
    optimizer = next((word for word in words if word in ("sgd", "radam")), "adam")
    rate = "_".join(word for word in words if word in ("sgd", "low", "high", "fixed")) or "lr"
    if tail := next((word for word in words if word in ("anchored", "linear", "literal", "step", "fixed")), None):
        decay = "constant" if tail == "fixed" else tail
    elif ramp == "warm":
        decay = "inverse_sqrt"
    else:
        decay = {("preln", "adam"): "step", ("preln", "radam"): "linear", ("postln", "radam"): "linear"}.get(
            (norm, optimizer), "anchored"
        )
    return None if ramp == "nowarm" else "short" if "short" in words else "ramp", decay, rate, optimizer


@pytest.mark.parametrize(
    "setting", [pytest.param(name, marks=[] if name == "toy" else pytest.mark.slow) for name in SETTINGS]
)
def test_a_translation_experiment_reaches_fairseq_as_the_tables_have_it(setting):
    data, *sizes, max_tokens, batches, epochs, step_epoch, longer, reference = SETTINGS[setting]
    layers, width, ffn, heads = sizes
    for arm in of("iwslt") if setting == "iwslt" else EACH_REFERENCE:
        experiment, given = configured(setting, arm)
        norm = "admin_closed" if arm.endswith("closed") else arm.split("_")[0]
        ramp_name, decay, rate, optimizer = described(arm)
        ramp, lr = reference[ramp_name] if ramp_name else 0, reference[rate]
        if decay == "step" and setting == "wmt":  # section 4.1: inverse square root after the 6th epoch
            decay = "step_inverse_sqrt"
        length = longer if arm.endswith("fixed") else epochs

        assert (experiment.data.name, experiment.eval.beam, experiment.eval.lenpen) == (data, 5, 1.2)
        assert (given.task, given.arch, given.criterion) == ("ln_translation", "ln_transformer", "ln_cross_entropy")
        assert (given.lr, given.clip_norm, given.label_smoothing, given.weight_decay) == ([lr], 0.0, 0.1, 0.0)
        assert (given.max_epoch, given.max_update) == (length, 0)
        assert (given.max_tokens, given.update_freq) == (max_tokens, [batches])
        assert given.optimizer == f"ln_{optimizer}"
        if optimizer != "sgd":
            assert (given.beta1, given.beta2, given.adam_eps) == (0.9, 0.98, 1e-8)
        assert (given.lr_scheduler, given.warmup_updates, given.decay) == ("ln_ramp_and_tail", ramp, decay)
        assert (given.seed, given.precision) == (1, "fp32") and not (given.fp16 or given.bf16 or given.amp)

        assert given.anchor == reference["ramp"] or decay != "anchored"
        assert given.step_epoch == step_epoch or not decay.startswith("step")

        init = "xavier" if norm in ("deepnorm", "tfixup", "subln") else "xavier_legacy"
        assert (given.norm, given.init, given.dropout) == (norm, init, 0.1)
        model, parameters = on_meta(given)
        assert [len(stack.layers) for stack in (model.encoder.stack, model.decoder.stack)] == [layers, layers]
        attention, feed_forward = 4 * width * (width + 1), 2 * width * ffn + ffn + width
        norms = norm_parameters(norm, layers, width, ffn, heads, VOCABULARY)
        assert parameters == VOCABULARY * width + layers * (3 * attention + 2 * feed_forward) + norms
        assert model.encoder.stack.layers[0].self_attn.heads == heads


@pytest.mark.parametrize("setting", BERTS)
def test_a_bert_reaches_fairseq_as_the_table_has_it(setting):
    data, layers, width, ffn, heads, block, max_tokens, batches, epochs, updates, low, high, full_ramp = BERTS[setting]
    for arm in of(setting):
        experiment, given = configured(setting, arm)
        lr, ramp = high if arm.endswith("high") else low, 0 if "nowarm" in arm else full_ramp

        assert (experiment.data.name, given.norm, given.dropout) == (data, arm.split("_")[0], 0.1)
        assert (given.task, given.arch, given.criterion) == ("ln_masked_lm", "ln_encoder", "ln_cross_entropy")
        assert (given.lr, given.clip_norm, given.label_smoothing, given.weight_decay) == ([lr], 0.0, 0.0, 0.01)
        assert (given.max_epoch, given.max_update) == (epochs or 0, updates or 0)
        assert (given.block_tokens, given.max_tokens, given.update_freq) == (block, max_tokens, [batches])
        assert (given.optimizer, given.beta1, given.beta2, given.adam_eps) == ("ln_adam", 0.9, 0.999, 1e-6)
        assert (given.lr_scheduler, given.warmup_updates, given.decay) == ("ln_ramp_and_tail", ramp, "linear")

        model, parameters = on_meta(given, LnEncoder)
        assert len(model.encoder.stack.layers) == layers
        assert model.encoder.stack.layers[0].self_attn.heads == heads
        norms = (2 * layers + arm.startswith("preln")) * 2 * width
        without = experiment.model.parameters(VOCABULARY, TASKS[experiment.task])
        assert parameters == without + norms
        assert without == VOCABULARY * width + layers * (4 * width * (width + 1) + 2 * width * ffn + ffn + width)


@pytest.mark.parametrize(
    ("setting", "arm"), [(setting, arm) for setting in ("mrpc", "rte", "minimrpc", "minirte") for arm in of(setting)]
)
def test_a_fine_tuning_reaches_fairseq_as_the_paper_has_it(setting, arm):
    experiment, given = configured(setting, arm)
    small = setting.startswith("mini")
    assert (experiment.data.name, given.norm) == (setting.removeprefix("mini"), arm.split("_")[0])
    assert (given.task, given.arch, given.criterion) == ("ln_classification", "ln_classifier", "ln_classification")
    assert (given.lr, given.label_smoothing, given.weight_decay, given.start) == (
        [5e-4 if small else 5e-5],
        0.0,
        0.01,
        "",
    )
    assert (given.max_epoch, given.batch_size, given.update_freq) == (3, 32, [1])
    assert (given.lr_scheduler, given.warmup_updates, given.decay) == ("ln_ramp_and_tail", 0, "linear")
    model, parameters = on_meta(given, LnClassifier)
    layers, width = (4, 128) if small else (12, 768)
    assert len(model.encoder.stack.layers) == layers
    layer = 4 * width * (width + 1) + 2 * width * 4 * width + 4 * width + width + 2 * 2 * width
    final = 2 * width * arm.startswith("preln")
    assert parameters == VOCABULARY * width + layers * layer + final + 2 * (width + 1)
