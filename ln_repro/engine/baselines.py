"""Baselines for benchmarks: stock fairseq, our training with one change, and the bare model."""

import json
import sys
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

import torch
from fairseq import options, tasks, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from ln_repro.engine.ablations import PARTS
from ln_repro.engine.candidates import CANDIDATES
from ln_repro.engine.group import Group
from ln_repro.engine.stop import StopRequest
from ln_repro.engine.training import configuration, train
from ln_repro.system.distributed import Rank


def stock(arguments: list[str]) -> int:
    """Run `fairseq-train` with its own command line."""
    from fairseq_cli import train as program

    sys.argv = ["fairseq-train", *arguments]
    program.main(convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), arguments)))
    return 0


def bare(arguments: list[str]) -> int:
    """Train our model in a simple loop over batches in memory, with the arguments of `train`.

    Prints a JSON object every ``--log-interval`` updates: the update, and target tokens and seconds since the last one.
    """
    cfg = configuration(arguments)
    utils.set_torch_seed(cfg.common.seed)
    device, task, model, loss_of = _built(cfg)
    betas = (cfg.optimizer.beta1, cfg.optimizer.beta2)
    optimizer = torch.optim.AdamW(model.parameters(), cfg.optimization.lr[0], betas, weight_decay=0.0, fused=True)
    model.train()
    batches = list(islice(_batches(task, cfg), cfg.optimization.max_update))
    if device.type == "cuda":
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
            if device.type == "cuda":
                torch.cuda.synchronize()
            now = time.monotonic()
            print(json.dumps({"update": update, "tokens": tokens, "seconds": now - began}), flush=True)
            began, tokens = now, 0
    return 0


def altered(arguments: list[str]) -> int:
    """Train as `train` does, with the ablation or candidate that the first argument names."""
    change, *rest = arguments
    {**PARTS, **CANDIDATES}[change]()
    return train(rest, StopRequest(), Group(Rank()))


def arithmetic(arguments: list[str]) -> int:
    """Count the operations of an update and measure the machine's throughput, with the arguments of `train`.

    Prints a JSON object: floating-point operations per target token (matrix products and attention, forward and
    backward), and per second in a large matrix product of the run's precision.
    """
    cfg = configuration(arguments)
    device, task, model, loss_of = _built(cfg)
    batch = next(iter(_batches(task, cfg)))
    batch = utils.move_to_cuda(batch) if device.type == "cuda" else batch
    counted = operations(lambda: loss_of(model, batch)[0].backward())
    low = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(cfg.task.precision, torch.float32)
    size = 8192 if device.type == "cuda" else 1024
    a, b = (torch.randn(size, size, device=device, dtype=low) for _ in range(2))
    seconds = min(_seconds(lambda: a @ b, device) for _ in range(20))
    found = {"per_token": counted / batch["ntokens"], "per_second": 2 * size**3 / seconds}
    print(json.dumps(found), flush=True)
    return 0


def operations(work: Callable[[], object]) -> int:
    """Return the floating-point operations of a call; torch cannot count those of fused attention on a CPU."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        work()
    return counter.get_total_flops()


def _seconds(work: Callable[[], object], device: torch.device) -> float:
    """Return the duration of a call, which includes the work that it leaves on a GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    began = time.monotonic()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.monotonic() - began


def _built(cfg: Any) -> tuple[torch.device, Any, Any, Any]:
    """Return the device, the task, the model and the criterion."""
    device = torch.device("cuda" if torch.cuda.is_available() and not cfg.common.cpu else "cpu")
    task = tasks.setup_task(cfg.task)
    return device, task, task.build_model(cfg.model).to(device), task.build_criterion(cfg.criterion).to(device)


def _batches(task: Any, cfg: Any) -> Any:
    """Return the mini-batches of the first epoch, in the order of `train`."""
    task.load_dataset("train")
    return task.get_batch_iterator(
        task.dataset("train"), max_tokens=cfg.dataset.max_tokens,
        required_batch_size_multiple=cfg.dataset.required_batch_size_multiple,
        max_positions=utils.resolve_max_positions(task.max_positions(), None),
        ignore_invalid_inputs=True, seed=cfg.common.seed, num_workers=0, epoch=1,
    ).next_epoch_itr(shuffle=True)  # fmt: skip
