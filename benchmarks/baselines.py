"""Baselines for the benchmark: stock fairseq, and a plain loop around our model."""

import json
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

import torch
from fairseq import options, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.trainings import WARM_UP
from ln_repro.engine.inputs import Inputs
from ln_repro.engine.loop import Loop
from ln_repro.engine.process_group import Group
from ln_repro.engine.stacked.joint import Joint
from ln_repro.engine.stop import StopRequest
from ln_repro.system.distributed import Rank

STACKS = (1, 4, 8, 16)
"""Numbers of runs that are trained as one."""


def stock(arguments: list[str]) -> None:
    """Run `fairseq-train` with its own arguments."""
    from fairseq_cli import train as program

    program.main(stock_configuration(arguments))


def stock_configuration(arguments: list[str]) -> Any:
    """Return the configuration that stock fairseq makes of its arguments."""
    return convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), arguments))


def bare(inputs: Inputs) -> None:
    """Train our model in a plain loop over batches in memory.

    Prints one JSON object for every ``train.log_every`` updates: update, target tokens and seconds since the last.
    """
    experiment, updates = inputs.experiment, inputs.experiment.train.max_update
    assert experiment.optimizer.betas and updates
    loop = Loop(inputs, StopRequest(), Group(Rank()))
    model, loss_of, cuda = loop.trainer.get_model(), loop.trainer.get_criterion(), loop.trainer.cuda
    optimizer = torch.optim.AdamW(
        model.parameters(), experiment.lr, experiment.optimizer.betas, weight_decay=0.0, fused=True
    )
    batches = [batch for samples in islice(loop.next_epoch(), updates) for batch in samples]
    if cuda:
        batches = [utils.move_to_cuda(batch) for batch in batches]
    began, tokens = time.monotonic(), 0
    for update in range(1, updates + 1):
        batch = batches[(update - 1) % len(batches)]
        loss, size, _ = loss_of(model, batch)
        optimizer.zero_grad()
        (loss / size).backward()
        optimizer.step()
        tokens += batch["ntokens"]
        if update % experiment.train.log_every == 0:
            if cuda:
                torch.cuda.synchronize()
            now = time.monotonic()
            print(json.dumps({"update": update, "tokens": tokens, "seconds": now - began}), flush=True)
            began, tokens = now, 0


def count(inputs: Inputs) -> None:
    """Print, for the second update of `train`, the number of operations, the bytes of their tensors, and those saved.

    The saved bytes are those of tensors, except parameters, that the backward pass needs.
    """
    loop = Loop(inputs, StopRequest(), Group(Rank()))
    first, second = islice(loop.next_epoch(), 2)
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


def stacks(inputs: Inputs) -> None:
    """Print what an update costs in stacks of `STACKS` runs, one JSON object for each.

    `operations`, `bytes` of their tensors and `milliseconds` of CPU are those of an update and run; on a GPU, the last
    are the time in which the operations are launched, on a CPU that in which they are computed. `tokens_per_s` are
    those of all runs together: after a warm-up on a GPU, in a single update on a CPU. On a GPU, there are also
    `peak_memory_mb` and, for three updates, `busy`, the part of their time in which the GPU computes, and `longest`,
    the ten operations that take most of that, with their number and their share of it.
    """
    for rows in STACKS:
        cuda = torch.cuda.is_available() and not inputs.on_cpu
        if cuda:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        train = training(inputs, rows)
        train(WARM_UP if cuda else 1)
        with Operations() as counted:
            train(1)
        cpu, clock = time.process_time(), time.monotonic()
        tokens = train(timed := (inputs.experiment.train.max_update or 1) if cuda else 1)
        seconds, milliseconds = time.monotonic() - clock, 1e3 * (time.process_time() - cpu) / timed
        totals = {"operations": counted.number, "bytes": counted.bytes, "milliseconds": milliseconds}
        memory = {"peak_memory_mb": torch.cuda.max_memory_allocated() // 2**20} if cuda else {}
        print(json.dumps({
            "stack": rows, **{name: total / rows for name, total in totals.items()}, "tokens_per_s": tokens / seconds,
            **memory, **(profile(train) if cuda else {}),
        }), flush=True)  # fmt: skip
        del train  # frees memory for the next stack


def training(inputs: Inputs, rows: int) -> Callable[[int], int]:
    """Return a function that trains a stack of ``rows`` for some updates, and returns the number of target tokens."""
    trainers = [Loop(inputs, StopRequest(), Group(Rank())).trainer for _ in range(rows)]
    joint, cuda = Joint(trainers) if rows > 1 else None, trainers[0].cuda
    remaining = trainers[0].next_epoch(trainers[0].get_train_iterator(1))

    def train(updates: int) -> int:
        tokens = 0
        for samples in islice(remaining, updates):
            computed = joint.add_up_gradients(samples) if joint else [None]
            for trainer, gradients in zip(trainers, computed, strict=True):
                trainer.update(samples, gradients)
            tokens += rows * sum(sample["ntokens"] for sample in samples)
        if cuda:
            torch.cuda.synchronize()
        return tokens

    return train


def profile(train: Callable[[int], int]) -> dict[str, Any]:
    """Return `busy` and `longest` of three updates on a GPU (see `stacks`)."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiled:
        began = time.monotonic()
        train(3)
        seconds = time.monotonic() - began
    times = [(event.self_device_time_total, event.key, event.count) for event in profiled.key_averages()]
    busy = sum(microseconds for microseconds, _, _ in times)
    longest = [
        {"name": name[:80], "number": number, "share": round(microseconds / busy, 4)}
        for microseconds, name, number in sorted(times, reverse=True)[:10]
    ]
    return {"busy": round(busy / 1e6 / seconds, 4), "longest": longest}


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
