"""Every setting of an experiment reaches fairseq, and the model has the parameters that its settings imply."""

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

MODELS = {"ln_translation": LnTransformer, "ln_masked_lm": LnEncoder, "ln_classification": LnClassifier}
EXPERIMENTS = [  # each task, optimizer, tail and norm placement
    "iwslt_postln_warm", "iwslt_preln_nowarm", "iwslt_postln_nowarm_radam", "iwslt_postln_nowarm_sgd_literal",
    "multi30k6_deepnorm_nowarm", "multi30k6_rezero_nowarm_step", "multi30k6_admin_nowarm",
    "bert_postln_warm_linear_high", "toybert_preln_nowarm_linear", "mrpc_preln_nowarm_linear",
]  # fmt: skip


@pytest.mark.parametrize("exp", EXPERIMENTS)
def test_every_setting_reaches_fairseq(exp: str) -> None:
    experiment = resolve_precision(build(compose([f"exp={exp}", "train.device=cpu"])))
    given = options.parse_args_and_arch(
        options.get_training_parser(), training_arguments(experiment, "corpus", "checkpoints")
    )
    train, model, optimizer, schedule = experiment.train, experiment.model, experiment.optimizer, experiment.schedule
    assert given.task == f"ln_{experiment.task}" and given.optimizer == f"ln_{optimizer.name}"
    assert (given.seed, given.precision, given.cpu) == (experiment.torch_seed, "fp32", True)
    assert not (given.fp16 or given.bf16 or given.amp)
    assert (given.lr, given.clip_norm, given.weight_decay) == (
        [experiment.lr], train.clip_norm, optimizer.weight_decay,
    )  # fmt: skip
    assert given.label_smoothing == train.label_smoothing
    assert (given.max_epoch, given.max_update) == (train.max_epoch or 0, train.max_update or 0)
    assert (given.max_tokens, given.batch_size) == (train.max_tokens, train.max_sentences)
    assert given.update_freq == [train.batches_per_update]
    assert (given.lr_scheduler, given.decay) == ("ln_ramp_and_tail", schedule.decay)
    assert (given.warmup_updates, given.anchor) == (schedule.warmup_updates, schedule.anchor)
    assert given.step_epoch == (schedule.step_epoch or 0)
    if optimizer.betas:
        assert (given.beta1, given.beta2, given.adam_eps) == (*optimizer.betas, optimizer.eps)
    if experiment.task == "masked_lm":
        assert given.block_tokens == train.block_tokens
    assert (given.norm, given.init, given.dropout) == (experiment.norm, experiment.init, model.dropout)
    assert given.share_embeddings == model.share_embeddings

    words = Dictionary()
    for index in range(1000 - len(words)):
        words.add_symbol(f"w{index}")
    with torch.device("meta"):  # shapes without numbers
        task = SimpleNamespace(source_dictionary=words, target_dictionary=words, start="")
        built = MODELS[given.task].build_model(given, task)
    layers, width = model.layers, model.width
    sub_layers = (5 if experiment.task == "translation" else 2) * layers
    norms = {"rezero": 1, "admin": 3 * width}.get(experiment.norm, 2 * width) * sub_layers
    final = 2 * width * len(built.stacks) * (experiment.norm == "preln")
    assert all(len(stack.layers) == layers for stack in built.stacks.values())
    assert built.encoder.stack.layers[0].self_attn.heads == model.heads
    parameters = model.parameters(1000, TASKS[experiment.task]) + norms + final
    assert sum(parameter.numel() for parameter in built.parameters()) == parameters
