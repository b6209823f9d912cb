"""Checkpoint to hypotheses, in the engine's process: fairseq's beam search over one split."""

from argparse import Namespace
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from fairseq import tasks, utils

from ln_repro.engine.stop import INTERRUPTED, StopRequest
from ln_repro.engine.training import configuration

BPE = "@@ "
TOKENS_PER_BATCH = {"cpu": 3000, "cuda": 24000}


def decode(arguments: list[str], stop: StopRequest) -> int:
    """Decode ``SPLIT BEAM LENPEN A B (OUT N WEIGHTS...)... -- TRAINING ARGUMENTS``.

    Each OUT is what the mean of its N files of weights makes of SPLIT: one tokenised hypothesis a line, BPE undone, in
    corpus order. It appears when it is whole.
    """
    ours, training = arguments[: (cut := arguments.index("--"))], arguments[cut + 1 :]
    split, beam, lenpen, max_len_a, max_len_b, *outputs = ours
    search = Namespace(beam=int(beam), lenpen=float(lenpen), max_len_a=float(max_len_a), max_len_b=int(max_len_b))
    cfg = configuration(training)
    task = tasks.setup_task(cfg.task)
    task.load_dataset(split)
    model = task.build_model(cfg.model).eval()
    device = "cuda" if torch.cuda.is_available() and not cfg.common.cpu else "cpu"
    rest = iter(outputs)
    for out in rest:
        model.load_state_dict(mean_weights(list(islice(rest, int(next(rest))))))
        lines = translate(task, model.to(device), split, search, device, stop)
        if stop:
            return INTERRUPTED
        part = Path(f"{out}.part")
        part.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        part.replace(out)
    return 0


def mean_weights(files: Sequence[Path | str]) -> dict[str, torch.Tensor]:
    """Return the arithmetic mean of each parameter over ``files``, taken in float64; of one file, its own values."""
    mean: dict[str, torch.Tensor] = {}
    for file in files:
        for name, values in torch.load(file, map_location="cpu", weights_only=True)["model"].items():
            mean[name] = mean[name] + values.double() if name in mean else values.double()
    return {name: total / len(files) for name, total in mean.items()}


@torch.inference_mode()
def translate(task: Any, model: Any, split: str, search: Namespace, device: str, stop: StopRequest) -> list[str]:
    """Return the best hypothesis for every sentence of ``split``; empty for one too long for the model."""
    generator = task.build_generator([model], search)
    dataset = task.dataset(split)
    batches = task.get_batch_iterator(
        dataset,
        max_tokens=TOKENS_PER_BATCH[device],
        max_positions=utils.resolve_max_positions(task.max_positions(), model.max_positions()),
        ignore_invalid_inputs=True,
    ).next_epoch_itr(shuffle=False)
    lines = [""] * len(dataset)
    for batch in batches:
        if stop:
            break
        sample = utils.move_to_cuda(batch) if device == "cuda" else batch
        for index, beams in zip(sample["id"].tolist(), generator.generate([model], sample), strict=True):
            lines[index] = task.target_dictionary.string(beams[0]["tokens"], BPE)
    return lines
