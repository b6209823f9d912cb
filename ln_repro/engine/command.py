"""The command lines of the trainer and the decoder for an experiment."""

import math
from pathlib import Path

from ln_repro.experiment.settings import Experiment

PLUGINS = {
    "translation": ("--task", "ln_translation", "--arch", "ln_transformer", "--criterion", "ln_cross_entropy"),
    "masked_lm": ("--task", "ln_masked_lm", "--arch", "ln_encoder", "--criterion", "ln_cross_entropy"),
    "classification": ("--task", "ln_classification", "--arch", "ln_classifier", "--criterion", "ln_classification"),
}
SCHEME_FILE = "scheme.py"
"""The copy of the user's file with a norm placement in the directory of a run."""


def training_arguments(
    experiment: Experiment, corpus: Path, folder: Path, resume: Path | None = None, unigram_bits: float = math.inf
) -> list[str]:
    """Return the arguments of `worker train`, with every dimension and constant.

    Checkpoints are written to ``folder``, and events to its parent, which has the file of a user's norm placement.
    """
    model, train, data, own = experiment.model, experiment.train, experiment.data, experiment.norm_file
    schedule, optimizer = experiment.schedule, experiment.optimizer
    beta1, beta2 = optimizer.betas or (None, None)
    options = {  # None and False: left out; True: an option without a value
        "source-lang": data.source_lang, "target-lang": data.target_lang,
        "norm": f"{folder.parent / SCHEME_FILE}:{own.class_name}" if own else experiment.norm,
        "precision": experiment.precision, "init": experiment.init, "branch-gain": model.branch_gain,
        "layers": model.layers, "width": model.width, "ffn": model.ffn, "heads": model.heads,
        "dropout": model.dropout, "share-embeddings": model.share_embeddings,
        "label-smoothing": train.label_smoothing,
        "block-tokens": train.block_tokens if experiment.task == "masked_lm" else None,
        "start": experiment.start.path if experiment.start else None,
        "optimizer": f"ln_{optimizer.name}", "weight-decay": optimizer.weight_decay,
        "beta1": beta1, "beta2": beta2, "adam-eps": optimizer.eps,
        "equal-layer-norms": optimizer.equal_layer_norms, "max-relative-update": optimizer.max_relative_update,
        "second-moment": optimizer.second_moment if optimizer.name == "adam" else None,
        "lr": experiment.lr, "clip-norm": train.clip_norm, "lr-scheduler": "ln_ramp_and_tail",
        "warmup-updates": schedule.warmup_updates, "decay": schedule.decay, "anchor": schedule.anchor,
        "step-epoch": schedule.step_epoch or 0,
        "part": schedule.part, "embeddings": schedule.embeddings,
        "seed": experiment.torch_seed,
        "max-tokens": train.max_tokens, "batch-size": train.max_sentences, "update-freq": train.batches_per_update,
        "max-epoch": train.max_epoch or 0, "max-update": train.max_update or 0,
        "probe": experiment.probe, "probe-every": experiment.every if experiment.probe != "none" else 0,
        "probe-batches": experiment.probe_batches,
        "unigram-bits": unigram_bits,
        "divergence-updates": experiment.divergence.updates if experiment.stop_on_divergence else 0,
        "log-interval": train.log_every, "log-format": "none", "save-dir": folder, "restore-file": resume,
        "save-interval-updates": train.save_every or 0, "save-minutes": train.save_minutes,
        "num-workers": 0, "distributed-world-size": 1, "ddp-backend": "legacy_ddp", "cpu": train.device == "cpu",
    }  # fmt: skip
    arguments = [str(corpus), *PLUGINS[experiment.task]]
    for name, value in options.items():
        if value is not None and value is not False:
            arguments += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return arguments
