"""Hypotheses are those of fairseq's own generator, and the mean of several epochs' weights."""

import pytest
import torch

from ln_repro.bench.decodings import trained
from ln_repro.bench.trainings import Workload
from ln_repro.engine.decode import mean_weights
from tests.examples import experiment

SMALL = {"layers": 1, "width": 16, "ffn": 24, "heads": 2, "norm": "preln"}


def saved(folder, *models):
    files = [folder / f"{number}.pt" for number in range(len(models))]
    for file, model in zip(files, models, strict=True):
        torch.save({"model": model.state_dict()}, file)
    return files


def test_the_mean_of_weights_is_their_mean(build_model, tmp_path):
    models = [build_model(seed=seed, share_embeddings=True, **SMALL) for seed in (1, 2, 3)]
    mean = mean_weights(saved(tmp_path, *models))
    states = [model.state_dict() for model in models]
    assert list(mean) == list(states[0])
    for name, values in mean.items():
        expected = torch.stack([state[name].double() for state in states]).mean(0)
        torch.testing.assert_close(values, expected, atol=1e-15, rtol=1e-15)
    models[0].load_state_dict(mean)
    assert all(torch.equal(values, mean[name].float()) for name, values in models[0].state_dict().items())


def test_the_mean_of_copies_is_the_original_bit_for_bit(build_model, tmp_path):
    state = build_model(share_embeddings=False, **SMALL).state_dict()
    (file,) = saved(tmp_path, build_model(share_embeddings=False, **SMALL))
    mean = mean_weights([file] * 7)
    assert all(torch.equal(mean[name].float(), values) for name, values in state.items())


@pytest.mark.parametrize("norm", ["preln", pytest.param("postln", marks=pytest.mark.slow)])
def test_every_hypothesis_is_fairseqs_own(letters, norm):
    """Stock `fairseq-generate` with stock fairseq's Transformer, given what a short training of ours has learnt."""
    model = {"model__layers": 2, "model__width": 32, "model__ffn": 64, "model__heads": 2}
    train = {"train__max_update": 150, "train__max_tokens": 400, "train__log_every": 50, "train__device": "cpu"}
    made_for = experiment(norm=norm, lr=5e-3, schedule__warmup_updates=50, **model, **train)
    with trained(Workload(made_for, letters)) as made:
        with made.decoder() as ours:
            first, again = ours.decode()[1], ours.decode()[1]
        stock = made.stock()[1]
    assert first == again == stock
    assert len(stock) == 20 and len(set(stock.values())) > 10
    lengths = [len(line.split()) for line in stock.values()]
    assert min(lengths) < max(lengths)  # they end where the model says so, not at the cap alone
