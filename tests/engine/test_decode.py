"""Hypotheses are those of fairseq's own generator, in limited memory, and the mean of several epochs' weights."""

import re
from argparse import Namespace

import pytest
import torch
from fairseq import options
from fairseq.models.transformer import TransformerModel
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase

from benchmarks.trainings import stock_arguments
from ln_repro.engine import decode
from ln_repro.engine.decode import mean_weights, translate
from ln_repro.engine.memory import SEARCH_BYTES, run_bytes
from ln_repro.engine.plugin.model import LnTransformer
from tests.engine.made import decoded, last_weights, stock_names, translation, workload
from tests.examples import experiment

SMALL = {"layers": 1, "width": 16, "ffn": 24, "heads": 2, "norm": "preln"}
UNUSED = re.compile(r"(_(weight|bias)|\.version|embed_positions\._float_tensor)$")
"""Further entries of fairseq's model: a second copy of each encoder weight, and buffers."""


def test_the_mean_of_weights_is_their_mean(build_model, tmp_path):
    states = [build_model(seed=seed, share_embeddings=True, **SMALL).state_dict() for seed in (1, 2, 3)]
    files = [tmp_path / f"{number}.pt" for number in range(3)]
    for state, file in zip(states, files, strict=True):
        torch.save({"model": state}, file)
    expected = {name: torch.stack([state[name].double() for state in states]).mean(0) for name in states[0]}
    torch.testing.assert_close(mean_weights(files), expected, atol=1e-15, rtol=1e-15)


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


@pytest.fixture
def translator(letters):
    """Return a task with its test set, and a new model."""
    task = translation(letters)
    task.load_dataset("test")
    return task, LnTransformer(workload(letters).experiment, task).eval()


def test_a_batch_that_needs_too_much_memory_is_decoded_in_parts_with_the_same_hypotheses(translator, capsys):
    task, model = translator
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


def test_a_line_that_is_too_long_for_the_model_is_left_empty(translator, monkeypatch):
    task, model = translator
    sizes = task.dataset("test").sizes
    limit = int(sizes.max()) - 1
    monkeypatch.setattr(model, "max_positions", lambda: (limit, limit))
    monkeypatch.setattr(decode, "TOKENS_PER_BATCH", {"cpu": limit})
    lines = translate(task, model, "test", Namespace(beam=1, lenpen=1.2, max_len_a=1.2, max_len_b=10), "cpu")
    assert len(lines) == len(sizes) and all(lines[at] == "" for at in (sizes.max(axis=1) > limit).nonzero()[0])


def test_the_memory_of_a_run_is_that_of_its_trainer_and_decoder():
    paper = {"model": {"name": "iwslt", "layers": 6, "width": 512, "ffn": 1024, "heads": 4}, "train__max_tokens": 4096}
    translation, masked = (run_bytes(experiment(task=task, **paper), 10152) for task in ("translation", "masked_lm"))
    assert 2**30 < masked < translation - SEARCH_BYTES < 2**33
