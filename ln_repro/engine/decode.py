"""Decode a split with fairseq's beam search, in a worker."""

import json
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

import torch
from fairseq import utils

from ln_repro.engine.inputs import Inputs
from ln_repro.engine.memory import SEARCH_BYTES, TOKENS_PER_BATCH, hypothesis_bytes
from ln_repro.engine.plugin.model import LnTransformer
from ln_repro.engine.plugin.tasks import LnTask
from ln_repro.engine.trainer import parts
from ln_repro.experiment.settings import Evaluation
from ln_repro.model.batch import Batch
from ln_repro.system.files import write_atomically

BPE = "@@ "
SCORES_PER_STEP = 2**27
"""Maximum number of scores (batch * beam * vocabulary) per step of the search: 0.5 GB for each of several copies."""


def decode(inputs: Inputs, requests: Iterable[str]) -> None:
    """Serve requests, each a line of JSON: decode ``split`` with the mean of the files ``weights`` into ``out``.

    Hypotheses are tokenised, but without BPE, and in corpus order.
    """
    device = "cuda" if torch.cuda.is_available() and not inputs.on_cpu else "cpu"
    task, model, _ = parts(inputs)
    model.eval().to(device)
    torch.backends.cuda.matmul.allow_tf32 = True
    for line in requests:
        request = json.loads(line)
        split, out = request["split"], Path(request["out"])
        if split not in task.datasets:
            task.load_dataset(split)
        model.load_state_dict(mean_weights(request["weights"]))
        print(f"decoding {out}", flush=True)
        hypotheses = translate(task, model, split, inputs.experiment.eval, device)
        write_atomically(out, "".join(f"{hypothesis}\n" for hypothesis in hypotheses))
        torch.cuda.empty_cache()  # the trainer uses the same GPU, if there is one


def mean_weights(files: Sequence[Path | str]) -> dict[str, torch.Tensor]:
    """Return the mean of each parameter over ``files``, computed in float64."""
    mean: dict[str, torch.Tensor] = {}
    for file in files:
        for name, values in torch.load(file, map_location="cpu", weights_only=True)["model"].items():
            mean[name] = mean[name] + values.double() if name in mean else values.double()
    return {name: total / len(files) for name, total in mean.items()}


@torch.inference_mode()
def translate(task: LnTask, model: LnTransformer, split: str, search: Evaluation, device: str) -> list[str]:
    """Return the best hypothesis for each sentence of ``split``, or an empty one if it is too long for the model.

    Weights and scores are in fp32, whatever the precision of training; a GPU multiplies matrices in TF32. A batch that
    would need more than `SEARCH_BYTES`, or that runs out of memory, is decoded in parts.
    """
    generator = task.build_generator([model], search)
    dataset, vocabulary = task.dataset(split), len(task.target_dictionary)
    batches = task.get_batch_iterator(
        dataset,
        TOKENS_PER_BATCH[device],
        max_sentences=max(1, SCORES_PER_STEP // (search.beam * vocabulary)),
        max_positions=utils.resolve_max_positions(task.max_positions(), model.max_positions()),
        ignore_invalid_inputs=True,
        decoding=True,
    ).next_epoch_itr(shuffle=False)
    lines = [""] * len(dataset)

    def decode_parts(batch: Batch, size: int) -> None:
        """Decode at most ``size`` sentences at a time, padded like the batch, on which the maximum length depends."""
        sentences, source = batch["net_input"]["src_tokens"].shape
        for first in range(0, sentences, size):
            part = utils.apply_to_sample(lambda tensor, first=first: tensor[first : first + size], batch)
            hypotheses = None
            with suppress(torch.OutOfMemoryError) if size > 1 else nullcontext():
                hypotheses = generator.generate([model], utils.move_to_cuda(part) if device == "cuda" else part)
            if hypotheses is None:  # out of memory; here no exception refers to the tensors of the search
                torch.cuda.empty_cache()
                print(f"out of GPU memory with {size} sentences of {source} tokens; trying half as many", flush=True)
                decode_parts(part, -(-size // 2))
                continue
            for index, beams in zip(part["id"].tolist(), hypotheses, strict=True):
                lines[index] = task.target_dictionary.string(beams[0]["tokens"].tolist(), BPE)

    layers, width = len(model.decoder.stack.layers), model.decoder.embed.width
    for batch in batches:
        sentences, source = batch["net_input"]["src_tokens"].shape
        target = int(search.max_len_a * source) + search.max_len_b + 1  # with <eos>
        sentence_bytes = search.beam * hypothesis_bytes(layers, width, vocabulary, source, target)
        decode_parts(batch, max(1, min(sentences, SEARCH_BYTES // sentence_bytes)))
    return lines
