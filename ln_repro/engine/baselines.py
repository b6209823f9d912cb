"""Baselines for the benchmark: stock fairseq in training and decoding, and a plain loop around our model."""

import json
import re
import sys
import time
from argparse import Namespace
from collections.abc import Mapping
from itertools import islice
from typing import Any

import torch
from fairseq import options, tasks, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ln_repro.engine.decode import batch_limits
from ln_repro.engine.group import Group
from ln_repro.engine.stop import StopRequest
from ln_repro.engine.training import Loop, configuration
from ln_repro.system.distributed import Rank

UNUSED = re.compile(r"(_(weight|bias)|\.version|embed_positions\._float_tensor)$")
"""Additional entries in fairseq's checkpoint: a second copy of each encoder weight, and buffers."""
RENAMED = {
    ".stack.norm.": ".layer_norm.",
    ".stack.": ".",
    ".embed.embedding.": ".embed_tokens.",
    ".projection.": ".output_projection.",
    ".cross_attn.": ".encoder_attn.",
    ".ffn.fc": ".fc",
    ".self_attn_residual.norm.": ".self_attn_layer_norm.",
    ".cross_attn_residual.norm.": ".encoder_attn_layer_norm.",
    ".ffn_residual.norm.": ".final_layer_norm.",
}


def stock(arguments: list[str]) -> None:
    """Run `fairseq-train` with its own arguments."""
    from fairseq_cli import train as program

    sys.argv = ["fairseq-train", *arguments]
    program.main(convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), arguments)))


def generate(arguments: list[str]) -> None:
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
        found[name] = values
    return found


def bare(arguments: list[str]) -> None:
    """Train our model in a plain loop over batches in memory; takes the arguments of `train`.

    Prints one JSON object for every ``--log-interval`` updates: update, target tokens and seconds since the last.
    """
    cfg = configuration(arguments)
    loop = Loop(cfg, StopRequest(), Group(Rank()))
    model, loss_of, cuda = loop.trainer.get_model(), loop.trainer.get_criterion(), loop.trainer.cuda
    betas = (cfg.optimizer.beta1, cfg.optimizer.beta2)
    optimizer = torch.optim.AdamW(model.parameters(), cfg.optimization.lr[0], betas, weight_decay=0.0, fused=True)
    batches = [batch for samples in islice(loop._epoch(), cfg.optimization.max_update) for batch in samples]
    if cuda:
        batches = [utils.move_to_cuda(batch) for batch in batches]
    began, tokens = time.monotonic(), 0
    for update in range(1, cfg.optimization.max_update + 1):
        batch = batches[(update - 1) % len(batches)]
        loss, size, _ = loss_of(model, batch)
        optimizer.zero_grad()
        (loss / size).backward()
        optimizer.step()
        tokens += batch["ntokens"]
        if update % cfg.common.log_interval == 0:
            if cuda:
                torch.cuda.synchronize()
            now = time.monotonic()
            print(json.dumps({"update": update, "tokens": tokens, "seconds": now - began}), flush=True)
            began, tokens = now, 0


def count(arguments: list[str]) -> None:
    """Print, for the second update of `train`, the number of operations, the bytes of their tensors, and those saved.

    The saved bytes are those of tensors, except parameters, that the backward pass needs.
    """
    loop = Loop(configuration(arguments), StopRequest(), Group(Rank()))
    first, second = islice(loop._epoch(), 2)
    loop.trainer.update(first)  # also creates the moments of the optimizer
    saved: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with Operations() as counted, saved_tensors_hooks(keep, lambda tensor: tensor):
        loop.trainer.update(second)
    parameters = {parameter.untyped_storage().data_ptr() for parameter in loop.trainer.get_model().parameters()}
    size = sum(nbytes for storage, nbytes in saved.items() if storage not in parameters)
    print(json.dumps({"operations": counted.number, "bytes": counted.bytes, "saved": size}), flush=True)


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A context that counts operations, except views and allocations, and the bytes that they read and write."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.number = self.bytes = 0

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = operation(*args, **(kwargs or {}))
        name = operation._schema.name.removeprefix("aten::")
        if not operation.is_view and not name.startswith(("empty", "new_empty", "detach", "alias", "_unsafe_view")):
            tensors = [part for part in tree_leaves((args, kwargs, result)) if isinstance(part, torch.Tensor)]
            self.number += 1
            self.bytes += sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        return result
