"""Baselines for the benchmark: stock fairseq, and a plain loop around our model."""

import json
import time
from itertools import islice
from typing import Any

import torch
from fairseq import utils
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ln_repro.engine.group import Group
from ln_repro.engine.stop import StopRequest
from ln_repro.engine.training import Loop, configuration
from ln_repro.system.distributed import Rank


def stock(arguments: list[str]) -> None:
    """Run `fairseq-train` with its own arguments."""
    from fairseq_cli import train as program

    program.main(configuration(arguments))


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
