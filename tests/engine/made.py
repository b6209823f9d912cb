"""Dictionaries, losses, mini-batches and trainings that several tests of the engine are made of."""

import time
from types import SimpleNamespace

import numpy as np
import torch
from fairseq.data import Dictionary

from benchmarks.trainings import Workload
from ln_repro.engine.checkpoints import Checkpoints
from ln_repro.engine.inputs import Inputs
from ln_repro.engine.plugin.loss import LabelSmoothedCrossEntropy
from ln_repro.engine.plugin.optimizers import optimizer_of
from ln_repro.engine.plugin.tasks import LnTranslation
from ln_repro.engine.process import DecodingProcess
from ln_repro.engine.stop import StopRequest
from ln_repro.experiment.settings import Optimizer
from ln_repro.records.events import Events
from tests.examples import experiment

RENAMED = {
    ".stack.norm.": ".layer_norm.", ".stack.": ".", ".embed.embedding.": ".embed_tokens.",
    ".projection.": ".output_projection.", ".cross_attn.": ".encoder_attn.", ".ffn.fc": ".fc",
    ".self_attn_residual.norm.": ".self_attn_layer_norm.", ".cross_attn_residual.norm.": ".encoder_attn_layer_norm.",
    ".ffn_residual.norm.": ".final_layer_norm.",
}  # fmt: skip


class Sentences(list):
    """Tensors of tokens that know their sizes, as fairseq's datasets do."""

    @property
    def sizes(self):
        return np.array([len(sentence) for sentence in self])

    def set_epoch(self, epoch):
        pass


def dictionary(size):
    """Return a dictionary of some size, with fairseq's own four symbols: <s>, <pad>, </s>, <unk>, w0, w1, ..."""
    words = Dictionary()
    for number in range(size - len(words)):
        words.add_symbol(f"w{number}")
    return words


def criterion(smoothing=0.1, precision="fp32", kind=LabelSmoothedCrossEntropy, target=dictionary(4)):  # noqa: B008
    """Return the training loss, of targets of a dictionary, or of classes if ``target`` is None."""
    settings = experiment(train__label_smoothing=smoothing, precision=precision)
    return kind(settings, SimpleNamespace(target_dictionary=target))


def adam(parameters, lr=0.1, betas=(0.9, 0.98), **settings):
    return optimizer_of(Optimizer(name="adam", betas=betas, eps=1e-8, **settings), lr, parameters)


def sgd(parameters, lr=0.1, **settings):
    return optimizer_of(Optimizer(name="sgd", **settings), lr, parameters)


def encoder_only(kind, words, norm="preln", start=None, seed=1):
    """Return a small model of a class with an encoder alone, for fine-tuning if it is a file that it starts from."""
    torch.manual_seed(seed)
    size = {"model__layers": 2, "model__width": 32, "model__ffn": 48, "model__heads": 4}
    tuned = {"task": "classification", "data__name": "rte", "start": {"given": "1@1", "path": start}}
    settings = experiment(norm=norm, **size, **(tuned if start else {"task": "masked_lm"}))
    return kind(settings, SimpleNamespace(source_dictionary=words))


def sample(seed, sentences=3, length=6):
    """Return a mini-batch for translation of random tokens from 4 to 39."""
    tokens = torch.randint(4, 40, (sentences, length), generator=torch.Generator().manual_seed(seed))
    inputs = {"src_tokens": tokens, "src_lengths": torch.tensor([length] * sentences), "prev_output_tokens": tokens}
    return {"net_input": inputs, "target": tokens.roll(-1, 1), "ntokens": tokens.numel()}


def translation(folder):
    """Return the translation task of a binarised corpus."""
    return LnTranslation(experiment(), folder)


def workload(corpus, **changes):
    """Return a small model to be trained for some updates, and a binarised corpus."""
    small = {
        "norm": "preln", "lr": 5e-3, "schedule__warmup_updates": 50, "model__layers": 2, "model__width": 32,
        "model__ffn": 64, "model__heads": 2, "train__max_update": 150, "train__max_tokens": 400,
        "train__log_every": 1, "train__device": "cpu",
    }  # fmt: skip
    return Workload(experiment(**{**small, **changes}), corpus)


def last_weights(folder):
    saved = Checkpoints(folder / "checkpoints")
    return saved.folder / saved.weights()[max(saved.weights())].file


def decoded(work, folder, times=1):
    """Return the hypotheses of the test set, from the last weights of a run, as often as asked of one process."""
    out, found = folder / "hypotheses", []
    process = DecodingProcess(Inputs(work.experiment, folder, work.corpus), folder / "decode.log")
    try:
        for _ in range(times):
            process.request("test", [last_weights(folder)], out)
            while not process.done():
                time.sleep(0.05)
            found.append(out.read_text().splitlines())
    finally:
        process.stop()
    return found


def separately(loops):
    """Train each loop by itself; return `losses`."""
    for loop in loops:
        for _ in loop.run():
            pass
    return losses(loops)


class StopAfter(StopRequest):
    """A request to stop a run after some updates."""

    def __init__(self, loop, updates):
        super().__init__()
        self.loop, self.updates = loop, updates

    def __bool__(self):
        return self.loop.update >= self.updates


def losses(loops):
    """Return the losses by run, kind of event and update."""
    found = {}
    for loop in loops:
        for event in Events(loop.inputs.folder / "events.jsonl").read():
            if "loss" in event:
                found[loop.inputs.folder.name, event["kind"], event["update"]] = event["loss"]
    return found


def stock_names(weights):
    """Return our weights by stock fairseq's names."""
    named = {}
    for name, values in weights.items():
        for ours, theirs in RENAMED.items():
            name = name.replace(ours, theirs)
        named[name] = values
    return named
