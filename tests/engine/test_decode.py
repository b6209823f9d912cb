"""Hypotheses are those of fairseq's own generator, in limited memory, and the mean of several epochs' weights."""

import re
from argparse import Namespace

import pytest
import torch
from fairseq import options
from fairseq.models.transformer import TransformerModel
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from fairseq.sequence_generator import SequenceGenerator
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.trainings import stock_arguments
from ln_repro.engine import decode
from ln_repro.engine.decode import mean_weights, translate
from ln_repro.engine.memory import SEARCH_BYTES, hypothesis_bytes, run_bytes
from ln_repro.engine.plugin.model import LnTransformer
from tests.engine.made import decoded, last_weights, translation, workload
from tests.engine.stock_names import stock_names
from tests.examples import experiment

SMALL = {"layers": 1, "width": 16, "ffn": 24, "heads": 2, "norm": "preln"}
UNUSED = re.compile(r"(_(weight|bias)|\.version|embed_positions\._float_tensor)$")
"""Further entries of fairseq's model: a second copy of each encoder weight, and buffers."""


def test_the_mean_of_weights_is_their_mean(build_model, tmp_path):
    models = [build_model(seed=seed, share_embeddings=True, **SMALL) for seed in (1, 2, 3)]
    states = [model.state_dict() for model in models]
    for number, state in enumerate(states):
        torch.save({"model": state}, tmp_path / f"{number}.pt")
    mean = mean_weights([tmp_path / f"{number}.pt" for number in range(3)])
    assert list(mean) == list(states[0])
    for name, values in mean.items():
        expected = torch.stack([state[name].double() for state in states]).mean(0)
        torch.testing.assert_close(values, expected, atol=1e-15, rtol=1e-15)
    models[0].load_state_dict(mean)
    assert all(torch.equal(values, mean[name].float()) for name, values in models[0].state_dict().items())


@pytest.mark.parametrize("norm", ["preln", pytest.param("postln", marks=pytest.mark.slow)])
def test_every_hypothesis_is_fairseqs_own(letters, norm, tmp_path, monkeypatch):
    """fairseq's generator with stock fairseq's Transformer, given what a short training of ours has learnt."""
    work, run = workload(letters, norm=norm), tmp_path / "run"
    work.train(run)
    first, again = decoded(work, run, times=2)

    # fairseq's fast path with a second copy of the encoder's weights fails in current torch
    monkeypatch.setattr(TransformerEncoderLayerBase, "_load_from_state_dict", torch.nn.Module._load_from_state_dict)
    arguments, task = stock_arguments(work.experiment, letters, run), translation(letters)
    args = options.parse_args_and_arch(options.get_training_parser(), arguments)
    stock = TransformerModel.build_model(args, task).eval()
    ours, theirs = stock_names(torch.load(last_weights(run))["model"]), stock.state_dict()
    assert all(name in theirs and UNUSED.search(name) for name in theirs.keys() ^ ours.keys())
    stock.load_state_dict(theirs | ours)  # with the version of the format, without which it omits the final norms
    task.load_dataset("test")
    search = work.experiment.eval
    generator = task.build_generator([stock], Namespace(**search.model_dump()))
    batches = task.get_batch_iterator(task.dataset("test"), max_tokens=3000).next_epoch_itr(shuffle=False)
    lines = {}
    for batch in batches:
        for index, beams in zip(batch["id"].tolist(), generator.generate([stock], batch), strict=True):
            lines[index] = task.target_dictionary.string(beams[0]["tokens"], "@@ ")
    assert first == again == [lines[index] for index in range(20)]
    assert len(set(first)) > 10
    lengths = [len(line.split()) for line in first]
    assert min(lengths) < max(lengths)  # they end where the model says so, not at the cap alone


class LiveMemory(TorchDispatchMode):
    """Measures the peak of the memory of the tensors that operations return, in bytes."""

    def __init__(self):
        super().__init__()
        self.sizes = {}
        self.now = self.peak = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for storage in [leaf.untyped_storage() for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]:
            reference, size = StorageWeakRef(storage), storage.nbytes()
            self.now += size - self.sizes.get(reference, 0)
            self.sizes[reference] = size
        if self.now > self.peak:
            self.sizes = {reference: size for reference, size in self.sizes.items() if not reference.expired()}
            self.now = sum(self.sizes.values())
            self.peak = max(self.peak, self.now)
        return result


@pytest.mark.parametrize(
    ("layers", "width", "vocabulary", "source"), [(3, 64, 40, 9), (3, 64, 40, 25), (1, 16, 2000, 9)]
)
def test_the_live_memory_of_the_search_is_what_is_estimated(build_model, layers, width, vocabulary, source):
    model = build_model(vocabulary, layers=layers, width=width, ffn=2 * width, heads=2, share_embeddings=True).eval()
    words, sentences = model.decoder.dictionary, 10
    generator = SequenceGenerator([model], words, beam_size=5, max_len_a=1.2, max_len_b=10)
    tokens = torch.randint(5, 40, (sentences, source))
    inputs = {"src_tokens": tokens, "src_lengths": torch.full((sentences,), source)}
    with torch.inference_mode(), LiveMemory() as memory:
        generator.generate([model], {"id": torch.arange(sentences), "net_input": inputs})
    estimate = 5 * sentences * hypothesis_bytes(layers, width, len(words), source, int(1.2 * source) + 11)
    assert 0.5 * estimate < memory.peak < estimate


def test_a_batch_that_needs_too_much_memory_is_decoded_in_parts_with_the_same_hypotheses(letters, capsys):
    task = translation(letters)
    task.load_dataset("test")
    model = LnTransformer.build_model(workload(letters).experiment, task).eval()
    search = Namespace(beam=3, lenpen=1.2, max_len_a=1.2, max_len_b=10)
    whole = translate(task, model, "test", search, "cpu")
    sizes = []

    def limited(module, inputs):
        sizes.append(len(inputs[0]))
        if sizes[-1] > 3:
            raise torch.OutOfMemoryError

    model.encoder.embed.register_forward_pre_hook(limited)
    assert translate(task, model, "test", search, "cpu") == whole
    assert sizes[:4] == [20, 10, 5, 3] and sum(size for size in sizes if size <= 3) == 20
    assert capsys.readouterr().out.count("out of GPU memory") == sum(size > 3 for size in sizes)


def test_a_line_that_is_too_long_for_the_model_is_left_empty(letters, monkeypatch):
    task = translation(letters)
    task.load_dataset("test")
    model = LnTransformer.build_model(workload(letters).experiment, task).eval()
    sizes = task.dataset("test").sizes
    limit = int(sizes.max()) - 1
    monkeypatch.setattr(model, "max_positions", lambda: (limit, limit))
    monkeypatch.setattr(decode, "TOKENS_PER_BATCH", {"cpu": limit})
    search = Namespace(beam=1, lenpen=1.2, max_len_a=1.2, max_len_b=10)
    lines = translate(task, model, "test", search, "cpu")
    assert len(lines) == len(sizes) and all(lines[at] == "" for at in (sizes.max(axis=1) > limit).nonzero()[0])


def test_the_memory_of_a_run_is_that_of_its_trainer_and_decoder():
    paper = {"model": {"name": "iwslt", "layers": 6, "width": 512, "ffn": 1024, "heads": 4}, "train__max_tokens": 4096}
    translation, masked = (run_bytes(experiment(task=task, **paper), 10152) for task in ("translation", "masked_lm"))
    assert 2**30 < masked < translation - SEARCH_BYTES < 2**33
