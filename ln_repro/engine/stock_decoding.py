"""Decode with stock fairseq's generator and Transformer from our weights, as a baseline."""

import re
import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase

from ln_repro.engine.decode import batch_limits

UNUSED = re.compile(r"(_(weight|bias)|\.version|embed_positions\._float_tensor)$")
"""Additional entries in fairseq's checkpoint: a second copy of each encoder weight, and buffers."""
RENAMED = {
    ".stack.": ".",
    ".embed.embedding.": ".embed_tokens.",
    ".projection.": ".output_projection.",
    ".cross_attn.": ".encoder_attn.",
    ".ffn.fc": ".fc",
    ".self_attn_residual.norm.": ".self_attn_layer_norm.",
    ".cross_attn_residual.norm.": ".encoder_attn_layer_norm.",
    ".ffn_residual.norm.": ".final_layer_norm.",
}


def generate(arguments: list[str]) -> int:
    """Run `fairseq-generate`; ``arguments``: SPLIT BEAM LENPEN A B WEIGHTS CHECKPOINT -- TRAINING ARGUMENTS.

    Our WEIGHTS are converted to CHECKPOINT, for the model that the training arguments describe. The batches are those
    of `decode`, because the maximum length of a hypothesis depends on the longest source in its batch.
    """
    from fairseq_cli import generate as program

    ours, training = arguments[: (cut := arguments.index("--"))], arguments[cut + 1 :]
    split, beam, lenpen, max_len_a, max_len_b, weights, checkpoint = ours
    # fairseq's fast path with a second copy of the encoder's weights fails in current torch
    TransformerEncoderLayerBase._load_from_state_dict = torch.nn.Module._load_from_state_dict
    args = options.parse_args_and_arch(options.get_training_parser(), training)
    vocabulary = save_as_stock(torch.load(weights, map_location="cpu", weights_only=True)["model"], args, checkpoint)
    device = "cuda" if torch.cuda.is_available() and not args.cpu else "cpu"
    limits = batch_limits(device, int(beam), vocabulary)
    command = [
        args.data, "--path", checkpoint, "--gen-subset", split, "--beam", beam, "--lenpen", lenpen,
        "--max-len-a", max_len_a, "--max-len-b", max_len_b, "--max-tokens", str(limits["max_tokens"]),
        "--batch-size", str(limits["max_sentences"]), "--required-batch-size-multiple", "1",
        "--skip-invalid-size-inputs-valid-test", "--post-process", "subword_nmt",
        "--task", "translation", "--source-lang", args.source_lang, "--target-lang", args.target_lang,
        "--num-workers", "0", "--no-progress-bar", *(["--cpu"] if args.cpu else []),
    ]  # fmt: skip
    sys.argv = ["fairseq-generate", *command]
    cfg = options.parse_args_and_arch(options.get_generation_parser(), command)
    program.main(convert_namespace_to_omegaconf(cfg))
    return 0


def save_as_stock(weights: Mapping[str, torch.Tensor], args: Namespace, checkpoint: str) -> int:
    """Write our weights as a checkpoint of fairseq's Transformer; return the size of its vocabulary."""
    cfg = convert_namespace_to_omegaconf(args)
    task, ours = tasks.setup_task(cfg.task), stock_names(weights)
    theirs = task.build_model(cfg.model).state_dict()
    if other := {name for name in theirs.keys() ^ ours.keys() if name in ours or not UNUSED.search(name)}:
        raise SystemExit(f"our weights do not fit fairseq's model: {', '.join(sorted(other))}")
    history = [{"optimizer_name": "none", "criterion_name": "none", "lr_scheduler_state": {}, "num_updates": 0}]
    kept: dict[str, Any] = {"args": args, "model": theirs | ours, "optimizer_history": history}
    torch.save({**kept, "extra_state": {"train_iterator": {"epoch": 1}}, "last_optimizer_state": None}, checkpoint)
    return len(task.target_dictionary)


def stock_names(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return our weights by fairseq's names."""
    found = {}
    for name, values in weights.items():
        for ours, theirs in RENAMED.items():
            name = name.replace(ours, theirs)
        found[re.sub(r"^(encoder|decoder)\.norm\.", r"\1.layer_norm.", name)] = values
    return found
