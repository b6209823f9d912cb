"""The command lines of the trainer and the decoder for an experiment."""

from collections.abc import Sequence
from pathlib import Path

from ln_repro.experiment.optimizer import Optimizer
from ln_repro.experiment.settings import Evaluation, Experiment

PLUGINS = {
    "translation": ("--task", "ln_translation", "--arch", "ln_transformer", "--criterion", "ln_cross_entropy"),
    "masked_lm": ("--task", "ln_masked_lm", "--arch", "ln_encoder", "--criterion", "ln_cross_entropy"),
    "classification": ("--task", "ln_classification", "--arch", "ln_classifier", "--criterion", "ln_classification"),
}


SCHEME_FILE = "scheme.py"
"""The copy of the user's file with a norm placement in the directory of a run."""


def training_arguments(experiment: Experiment, corpus: Path, folder: Path, resume: Path | None = None) -> list[str]:
    """Return the arguments of `worker train`, with every dimension and constant.

    Checkpoints are written to ``folder``, and events to its parent, which has the file of a user's norm placement.
    """
    model, train, data, own = experiment.model, experiment.train, experiment.data, experiment.norm_file
    norm = f"{folder.parent / SCHEME_FILE}:{own.class_name}" if own else experiment.norm
    arguments: list[object] = [
        corpus, *PLUGINS[experiment.task],
        "--source-lang", data.source_lang, "--target-lang", data.target_lang,
        "--precision", experiment.precision, "--norm", norm, "--init", experiment.init,
        "--layers", model.layers, "--width", model.width, "--ffn", model.ffn, "--heads", model.heads,
        "--dropout", model.dropout, *(["--share-embeddings"] if model.share_embeddings else []),
        "--branch-gain", model.branch_gain,
        "--label-smoothing", train.label_smoothing,
        *_optimizer(experiment.optimizer),
        "--lr", experiment.lr, "--clip-norm", train.clip_norm, *_schedule(experiment),
        "--seed", experiment.torch_seed, "--max-tokens", train.max_tokens,
        "--update-freq", train.batches_per_update,
        "--max-epoch", train.max_epoch or 0, "--max-update", train.max_update or 0,
        "--log-interval", train.log_every, "--log-format", "none",
        "--save-dir", folder, "--save-interval-updates", train.save_every or 0, "--save-minutes", train.save_minutes,
        "--num-workers", 0, "--distributed-world-size", 1, "--ddp-backend", "legacy_ddp",
    ]  # fmt: skip
    if experiment.task == "masked_lm":
        arguments += ["--block-tokens", train.block_tokens]
    if experiment.start is not None:
        arguments += ["--start", experiment.start.path]
    if train.max_sentences is not None:
        arguments += ["--batch-size", train.max_sentences]
    if experiment.probe != "none":
        arguments += [
            "--probe",
            experiment.probe,
            "--probe-every",
            experiment.every,
            "--probe-batches",
            experiment.probe_batches,
        ]
    if experiment.stop_on_divergence:
        arguments += ["--divergence-rule", experiment.divergence.rule]
        arguments += ["--divergence-updates", experiment.divergence.updates]
    if train.device == "cpu":
        arguments.append("--cpu")
    if resume is not None:
        arguments += ["--restore-file", resume]
    return [str(argument) for argument in arguments]


def decoding_arguments(search: Evaluation, training: Sequence[str]) -> list[str]:
    """Return the arguments of `worker decode`."""
    return [str(part) for part in [search.beam, search.lenpen, search.max_len_a, search.max_len_b, "--", *training]]


def _optimizer(optimizer: Optimizer) -> list[object]:
    chosen: list[object] = ["--optimizer", f"ln_{optimizer.name}", "--weight-decay", optimizer.weight_decay]
    if optimizer.betas is not None:
        chosen += ["--beta1", optimizer.betas[0], "--beta2", optimizer.betas[1], "--adam-eps", optimizer.eps]
    if optimizer.equal_layer_norms:
        chosen.append("--equal-layer-norms")
    if optimizer.max_relative_update is not None:
        chosen += ["--max-relative-update", optimizer.max_relative_update]
    if optimizer.second_moment != "zero":
        chosen += ["--second-moment", optimizer.second_moment]
    return chosen


def _schedule(experiment: Experiment) -> list[object]:
    schedule = experiment.schedule
    return ["--lr-scheduler", "ln_ramp_and_tail", "--warmup-updates", schedule.warmup_updates,
            "--decay", schedule.decay, "--anchor", schedule.anchor,
            "--step-epoch", schedule.step_epoch or 0]  # fmt: skip
